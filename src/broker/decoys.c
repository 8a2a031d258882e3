/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/strv.h"
#include "broker/decoys.h"
#include "broker/tripwire.h"
#include "policy/unit-props.h"

/* Where the programs that collect credentials look first. Each of these is read by tools that have business with a cloud, a
 * cluster or a remote host, and by nothing that works on files. */
const DecoyRow decoy_rows[] = {
        { UNIT_HOME "/.aws/credentials", 0600,
                        "[default]\n"
                        "aws_access_key_id = <AKIA%A16>\n"
                        "aws_secret_access_key = <%b40>\n" },
        { UNIT_HOME "/.config/gcloud/application_default_credentials.json", 0600,
                        "{\n"
                        "  \"account\": \"\",\n"
                        "  \"client_id\": \"<%d12-%a32>.apps.googleusercontent.com\",\n"
                        "  \"client_secret\": \"<GOCSPX-%u28>\",\n"
                        "  \"refresh_token\": \"<1//0%u100>\",\n"
                        "  \"type\": \"authorized_user\",\n"
                        "  \"universe_domain\": \"googleapis.com\"\n"
                        "}\n" },
        { UNIT_HOME "/.env", 0600,
                        "DATABASE_URL=postgresql://app:<%w24>@db.internal:5432/app\n"
                        "SECRET_KEY=<%w50>\n"
                        "STRIPE_SECRET_KEY=<sk_live_%w24>\n"
                        "GITHUB_TOKEN=<ghp_%w36>\n" },
        { UNIT_HOME "/.kube/config", 0600,
                        "apiVersion: v1\n"
                        "kind: Config\n"
                        "clusters:\n"
                        "- name: production\n"
                        "  cluster:\n"
                        "    insecure-skip-tls-verify: true\n"
                        "    server: https://kubernetes.internal:6443\n"
                        "contexts:\n"
                        "- name: production\n"
                        "  context: {cluster: production, user: admin}\n"
                        "current-context: production\n"
                        "users:\n"
                        "- name: admin\n"
                        "  user:\n"
                        "    token: <%u64>\n" },
        { UNIT_HOME "/.ssh/id_ed25519", 0600, "<%K0>" },
        { "/var/run/secrets/kubernetes.io/serviceaccount/token", 0644,
                        /* {"alg":"RS256","typ":"JWT"} . {"iss":"kubernetes/serviceaccount",
                         * "sub":"system:serviceaccount:default:default"} . the signature */
                        "<eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9."
                        "eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50Iiwic3ViIjoic3lzdGVtOnNlcnZpY2VhY2NvdW50OmRlZmF1bHQ6"
                        "ZGVmYXVsdCJ9.%u342>" },
};
const size_t n_decoy_rows = ELEMENTSOF(decoy_rows);
_Static_assert(ELEMENTSOF(decoy_rows) <= DECOYS_MAX, "there is room for all of them");

void decoys_done(Decoys *d)
{
        strv_free(d->fingerprints);
        *d = (Decoys){};
}

/* ---- their text */

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static const char *alphabet(char letter)
{
        static const struct {
                char letter;
                const char *characters;
        } rows[] = {
                { 'A', UPPER "234567" },
                { 'a', LOWER DIGITS },
                { 'b', UPPER LOWER DIGITS "+/" },
                { 'd', "123456789" },
                { 'u', UPPER LOWER DIGITS "-_" },
                { 'w', UPPER LOWER DIGITS },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i].letter == letter)
                        return rows[i].characters;
        return NULL;
}

static int add_random(Buf *out, const char *characters, size_t n)
{
        uint8_t bytes[512];

        if (n > sizeof(bytes) || getrandom(bytes, n, 0) != (ssize_t) n)
                return -EIO;
        for (size_t i = 0; i < n; i++)
                buf_append(out, characters + bytes[i] % strlen(characters), 1);
        return out->error;
}

static void add_u32(Buf *out, uint32_t v)
{
        const uint8_t bytes[] = { (uint8_t) (v >> 24), (uint8_t) (v >> 16), (uint8_t) (v >> 8), (uint8_t) v };

        buf_append(out, bytes, sizeof(bytes));
}

static void add_string(Buf *out, const void *p, size_t n)
{
        add_u32(out, (uint32_t) n);
        buf_append(out, p, n);
}

/* The format is OpenSSH's PROTOCOL.key. The public half does not come of the private one: it opens nothing, not even by
 * somebody's doing. */
static int compose_key(Buf *out)
{
        static const char type[] = "ssh-ed25519", comment[] = "agent@sandbox", none[] = "none";
        static const uint8_t padding[] = { 1, 2, 3, 4, 5, 6, 7 };
        _cleanup_buf_ Buf public_key = {}, private_key = {};
        struct {
                uint8_t seed[32], public_half[32];
                uint32_t check;
        } secret;

        if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
                return -EIO;
        add_string(&public_key, type, strlen(type));
        add_string(&public_key, secret.public_half, sizeof(secret.public_half));
        add_u32(&private_key, secret.check);
        add_u32(&private_key, secret.check);
        buf_append(&private_key, public_key.data, public_key.size);
        add_string(&private_key, secret.seed, sizeof(secret.seed) + sizeof(secret.public_half));
        add_string(&private_key, comment, strlen(comment));
        buf_append(&private_key, padding, (8 - private_key.size % 8) % 8);
        buf_append(out, "openssh-key-v1", sizeof("openssh-key-v1"));
        add_string(out, none, strlen(none)); /* cipher */
        add_string(out, none, strlen(none)); /* key derivation */
        add_u32(out, 0);
        add_u32(out, 1);
        add_string(out, public_key.data, public_key.size);
        add_string(out, private_key.data, private_key.size);
        return out->error < 0 || public_key.error < 0 || private_key.error < 0 ? -ENOMEM : 0;
}

static int add_key(Buf *out)
{
        _cleanup_buf_ Buf key = {};
        char text[BASE64_ENCODE_RAW_LENGTH(512)];
        int r = compose_key(&key);
        size_t n;

        if (r < 0)
                return r;
        n = BASE64_ENCODE_RAW_LENGTH(key.size);
        if (n > sizeof(text))
                return -E2BIG;
        base64_encode_raw(text, key.size, key.data);
        buf_printf(out, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
        for (size_t i = 0; i < n; i += 70)
                buf_printf(out, "%.*s\n", (int) MIN2(n - i, (size_t) 70), text + i);
        buf_printf(out, "-----END OPENSSH PRIVATE KEY-----\n");
        return out->error;
}

static int add_fingerprint(const Buf *text, size_t begin, char ***fingerprints)
{
        uint8_t digest[SHA256_DIGEST_SIZE];
        char hex[DECOY_FINGERPRINT + 1];
        struct sha256_ctx sha;

        sha256_init(&sha);
        sha256_update(&sha, text->size - begin, text->data + begin);
        sha256_digest(&sha, sizeof(digest), digest);
        for (size_t i = 0; i < DECOY_FINGERPRINT / 2; i++)
                snprintf(hex + 2 * i, 3, "%02x", digest[i]);
        return strv_extend(fingerprints, hex);
}

int decoy_compose(const DecoyRow *row, Buf *out, char ***fingerprints)
{
        size_t begin = 0;
        int r = 0;

        for (const char *p = row->text; r >= 0 && *p; p++)
                if (*p == '<')
                        begin = out->size;
                else if (*p == '>')
                        r = add_fingerprint(out, begin, fingerprints);
                else if (*p == '%') {
                        char letter = *++p, *end;
                        size_t n = strtoul(p + 1, &end, 10);

                        r = letter == 'K' ? add_key(out) : add_random(out, alphabet(letter), n);
                        p = end - 1;
                } else
                        buf_append(out, p, 1);
        return r < 0 ? r : out->error;
}

/* ---- putting them in place */

static int make_parents(int fd, const char *path, mode_t mode)
{
        char part[PATH_MAX];

        snprintf(part, sizeof(part), "%s", path);
        for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                if ((mkdirat(fd, part, mode) < 0 && errno != EEXIST) || fchmodat(fd, part, mode, 0) < 0)
                        return -errno;
                *slash = '/';
        }
        return 0;
}

/* The file and the directories on the way to it. */
static int give_away(int fd, const char *path, uid_t uid, gid_t gid)
{
        char part[PATH_MAX];

        snprintf(part, sizeof(part), "%s", path);
        for (char *slash = part; slash;) {
                slash = strchr(slash, '/');
                if (slash)
                        *slash = 0;
                if (fchownat(fd, part, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
                        return -errno;
                if (slash)
                        *slash++ = '/';
        }
        return 0;
}

static int plant(int fd, const char *path, const DecoyRow *row, mode_t directories, int group_fd, Decoy *decoy,
                char ***fingerprints)
{
        _cleanup_buf_ Buf text = {};
        _cleanup_close_ int file_fd = -1;
        struct stat st;
        int r = decoy_compose(row, &text, fingerprints);

        if (r >= 0)
                r = make_parents(fd, path, directories);
        if (r >= 0)
                r = write_new_file_at(fd, path, text.data, text.size, row->mode);
        if (r < 0)
                return r;
        file_fd = openat(fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (file_fd < 0 || fstat(file_fd, &st) < 0)
                return -errno;
        decoy->device = st.st_dev;
        decoy->inode = st.st_ino;
        return tripwire_mark(group_fd, file_fd);
}

static const char *in_home(const DecoyRow *row)
{
        return startswith(row->path, UNIT_HOME "/");
}

int decoys_plant(int home_fd, int root_fd, uid_t uid, gid_t gid, int group_fd, Decoys *ret, Error **reterr)
{
        _cleanup_(decoys_done) Decoys d = {};

        for (size_t i = 0; i < n_decoy_rows; i++) {
                const DecoyRow *row = decoy_rows + i;
                const char *rest = in_home(row);
                int r = plant(rest ? home_fd : root_fd, rest ?: row->path + 1, row, rest ? 0700 : 0755, group_fd,
                                d.l + i, &d.fingerprints);

                if (r < 0)
                        return error_set(reterr, r, "cannot put the decoy %s in place: %s", row->path, strerror(-r));
                d.l[d.n++].row = i;
        }
        /* Only now: what is the run's, root cannot write in any more without a capability for it. */
        for (size_t i = 0; i < n_decoy_rows; i++) {
                const char *rest = in_home(decoy_rows + i);
                int r = rest ? give_away(home_fd, rest, uid, gid) : 0;

                if (r < 0)
                        return error_set(reterr, r, "cannot give the run its %s: %s", rest, strerror(-r));
        }
        if (fchown(home_fd, uid, gid) < 0)
                return error_set(reterr, -errno, "cannot give the run its home directory: %m");
        *ret = d;
        d = (Decoys){};
        return 0;
}

/* ---- for the run's state */

int decoys_to_strv(const Decoys *d, char ***ret)
{
        _cleanup_strv_ char **l = NULL;

        for (size_t i = 0; i < d->n; i++) {
                char *s;

                if (asprintf(&s, "%zu %" PRIu64 " %" PRIu64, d->l[i].row, (uint64_t) d->l[i].device,
                                    (uint64_t) d->l[i].inode) < 0)
                        return -ENOMEM;
                if (strv_push(&l, s) < 0)
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int decoys_from_strv(char *const *l, Decoys *ret)
{
        Decoys d = {};

        STRV_FOREACH(i, l) {
                uint64_t device, inode;
                size_t row;

                if (d.n >= DECOYS_MAX || sscanf(*i, "%zu %" SCNu64 " %" SCNu64, &row, &device, &inode) != 3 ||
                                row >= n_decoy_rows)
                        return -EBADMSG;
                d.l[d.n++] = (Decoy){ row, device, inode };
        }
        *ret = d;
        return 0;
}
