/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "broker/bpf-call.h"
#include "broker/wall-code.h"
#include "broker/wall-programs.h"

static const BpfProgram *const programs[] = {
        &wall_connect4_program,
        &wall_connect6_program,
        &wall_sendmsg4_program,
        &wall_sendmsg6_program,
        &wall_packets_program,
};
_Static_assert(ELEMENTSOF(programs) == WALL_PROGRAMS, "one descriptor each");

uint32_t wall_attach_type(size_t i)
{
        return programs[i]->attach_type;
}

/* The kernel maps no map that was opened to be read only, so the counters are as writable as the ring: the
 * warden's word. */
static const struct {
        const char *name;
        uint32_t type, key_size, value_size, entries, flags;
} map_rows[_MAP_MAX] = {
        [MAP_SOCKETS] = { "map of sockets", BPF_MAP_TYPE_SOCKMAP, 4, 8, SOCKETS, 0 },
        [MAP_WHO] = { "map of processes", BPF_MAP_TYPE_LRU_HASH, 8, sizeof(Who), WHO_ENTRIES, 0 },
        [MAP_EVENTS] = { "ring buffer", BPF_MAP_TYPE_RINGBUF, 0, 0, EGRESS_RING_SIZE, 0 },
        [MAP_COUNTERS] = { "counters", BPF_MAP_TYPE_ARRAY, 4, sizeof(EgressCounters), 1, BPF_F_MMAPABLE },
};

static int make_maps(int maps[static _MAP_MAX], Error **reterr)
{
        for (size_t i = 0; i < _MAP_MAX; i++) {
                union bpf_attr attr = {};

                attr.map_type = map_rows[i].type;
                attr.key_size = map_rows[i].key_size;
                attr.value_size = map_rows[i].value_size;
                attr.max_entries = map_rows[i].entries;
                attr.map_flags = map_rows[i].flags;
                maps[i] = bpf_call(BPF_MAP_CREATE, &attr);
                if (maps[i] < 0)
                        return error_set(reterr, maps[i], "the kernel refuses the BPF %s: %s",
                                        map_rows[i].name, strerror(-maps[i]));
        }
        return 0;
}

static int put_socket(int map, uint32_t key, int fd)
{
        uint64_t value = (uint64_t) fd;
        union bpf_attr attr = {};

        attr.map_fd = (uint32_t) map;
        attr.key = bpf_pointer(&key);
        attr.value = bpf_pointer(&value);
        return fd < 0 ? 0 : bpf_call(BPF_MAP_UPDATE_ELEM, &attr);
}

static int put_sockets(int map, const WallSockets *s, Error **reterr)
{
        for (uint32_t i = 0; i < 2; i++) {
                int r = put_socket(map, i, s->tcp[i]);

                if (r >= 0)
                        r = put_socket(map, i + SOCKETS_DNS, s->dns[i]);
                if (r < 0)
                        return error_set(reterr, r, "the kernel refuses the sockets of the wall: %s",
                                        strerror(-r));
        }
        return 0;
}

static int load_all(const int maps[static _MAP_MAX], Wall *w, int *ret_lookup, Error **reterr)
{
        _cleanup_close_ int lookup = bpf_load(&wall_lookup_program, maps, _MAP_MAX);

        if (lookup < 0)
                return error_set(reterr, lookup, "the kernel refuses the sk_lookup program: %s",
                                strerror(-lookup));
        for (size_t i = 0; i < WALL_PROGRAMS; i++) {
                w->programs[i] = bpf_load(programs[i], maps, _MAP_MAX);
                if (w->programs[i] < 0)
                        return error_set(reterr, w->programs[i],
                                        "the kernel refuses the cgroup program %s: %s", programs[i]->name,
                                        strerror(-w->programs[i]));
        }
        *ret_lookup = TAKE_FD(lookup);
        return 0;
}

int wall_programs_load(const WallSockets *sockets, Wall *w, int *ret_lookup, Error **reterr)
{
        int maps[_MAP_MAX] = { -1, -1, -1, -1 }, r;

        r = make_maps(maps, reterr);
        if (r >= 0)
                r = put_sockets(maps[MAP_SOCKETS], sockets, reterr);
        if (r >= 0)
                r = load_all(maps, w, ret_lookup, reterr);
        if (r >= 0) {
                w->events_fd = TAKE_FD(maps[MAP_EVENTS]);
                w->counters_fd = TAKE_FD(maps[MAP_COUNTERS]);
        }
        for (size_t i = 0; i < _MAP_MAX; i++)
                closep(maps + i);
        return r;
}

int wall_programs_link(int lookup_fd, int netns_fd)
{
        union bpf_attr attr = {};

        attr.link_create.prog_fd = (uint32_t) lookup_fd;
        attr.link_create.target_fd = (uint32_t) netns_fd;
        attr.link_create.attach_type = BPF_SK_LOOKUP;
        return bpf_call(BPF_LINK_CREATE, &attr);
}
