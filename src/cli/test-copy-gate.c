/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/copy-gate.h"

static const struct {
        const char *path;
        GateClass class;
} files[] = {
        { ".git/hooks/pre-commit", GATE_GIT },
        { "src/.git/hooks/post-checkout", GATE_GIT },
        { "/home/u/src/.git/hooks/x", GATE_GIT },
        { ".GIT/Hooks/Pre-Commit", GATE_GIT },
        { ".git/config", GATE_GIT },
        { ".git/worktrees/w/config.worktree", GATE_GIT },
        { ".git/modules/sub/config", GATE_GIT },
        { ".git/modules/a/b/hooks/post-merge", GATE_GIT },
        { ".git", GATE_GIT },
        { "sub/.git", GATE_GIT },
        { "bare.git/hooks/x", GATE_GIT },
        { "bare.git/config", GATE_GIT },
        { "bare/hooks/post-receive", GATE_GIT },
        { "bare/hooks/update", GATE_GIT },
        { ".gitconfig", GATE_GIT },
        { "home/.config/git/config", GATE_GIT },
        { ".husky/pre-push", GATE_GIT },
        { "lefthook.yaml", GATE_GIT },
        { "lefthook.yml", GATE_GIT },

        { ".github/workflows/ci.yml", GATE_CI },
        { ".github/workflows/a/b.yaml", GATE_CI },
        { ".gitlab-ci.yml", GATE_CI },
        { "Jenkinsfile", GATE_CI },
        { "JENKINSFILE.release", GATE_CI },
        { "azure-pipelines-nightly.yml", GATE_CI },

        { ".bashrc", GATE_SHELL },
        { "home/.Profile", GATE_SHELL },
        { ".config/fish/conf.d/x.fish", GATE_SHELL },
        { ".config/systemd/user/default.target.wants/x.service", GATE_SHELL },
        { ".ssh/authorized_keys", GATE_SHELL },
        { ".ssh/authorized_keys2", GATE_SHELL },
        { ".envrc", GATE_SHELL },
        { "x.desktop", GATE_SHELL },
        { "lib/site-packages/evil.pth", GATE_SHELL },

        { ".vscode/tasks.json", GATE_EDITOR },
        { ".vscode/settings.json", GATE_EDITOR },
        { "a/b.code-workspace", GATE_EDITOR },
        { ".idea/runConfigurations/a.xml", GATE_EDITOR },
        { ".nvim.lua", GATE_EDITOR },
        { ".claude/settings.json", GATE_EDITOR },
        { ".mcp.json", GATE_EDITOR },

        { "package.json", GATE_PACKAGE },
        { "a/b/package.json", GATE_PACKAGE },
        { "setup.py", GATE_PACKAGE },
        { "Makefile", GATE_PACKAGE },
        { "makefile.am", GATE_PACKAGE },
        { "build.rs", GATE_PACKAGE },
        { ".cargo/config.toml", GATE_PACKAGE },
        { "Dockerfile", GATE_PACKAGE },
        { "gradle/wrapper/gradle-wrapper.jar", GATE_PACKAGE },

        { "src/main.c", GATE_NONE },
        { "README.md", GATE_NONE },
        { ".gitignore", GATE_NONE },
        { ".git/objects/ab/cdef", GATE_NONE },
        { ".git/index", GATE_NONE },
        { ".git/HEAD", GATE_NONE },
        { ".git/refs/heads/main", GATE_NONE },
        { "config", GATE_NONE },
        { "hooks/useState.ts", GATE_NONE },
        { "git/hooks/x", GATE_NONE },
        { "x.git-hooks/x", GATE_NONE },
        { "package.json.md", GATE_NONE },
        { "mypackage.json", GATE_NONE },
        { "bashrc", GATE_NONE },
        { ".bashrc.d", GATE_NONE },
        { "vscode/tasks.json", GATE_NONE },
        { "jenkins", GATE_NONE },
        { "", GATE_NONE },
        { "/", GATE_NONE },
};

static void test_files(void **state)
{
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                GateClass got = gate_classify(files[i].path, TREE_FILE, 0644);

                if (got != files[i].class)
                        fail_msg("%s: %s", files[i].path, gate_class_text(got));
                /* A program is one, whatever its name; what has a name of its own keeps that. */
                assert_int_equal(gate_classify(files[i].path, TREE_FILE, 0100),
                                files[i].class ?: GATE_EXECUTABLE);
                assert_int_equal(gate_classify(files[i].path, TREE_DIR, 0755), GATE_NONE);
        }
        assert_int_equal(gate_classify("x", TREE_FILE, 0010), GATE_EXECUTABLE);
        assert_int_equal(gate_classify("x", TREE_FILE, 0001), GATE_EXECUTABLE);
        assert_int_equal(gate_classify("x", TREE_FILE, 0666), GATE_NONE);
}

/* A link stands for the file of its name, and for the directory. */
static void test_links(void **state)
{
        static const struct {
                const char *path;
                GateClass class;
        } links[] = {
                { ".git/hooks", GATE_GIT },
                { ".git", GATE_GIT },
                { ".git/hooks/pre-commit", GATE_GIT },
                { "a/.github", GATE_CI },
                { ".github/workflows", GATE_CI },
                { ".vscode", GATE_EDITOR },
                { ".config", GATE_GIT },
                { ".ssh", GATE_SHELL },
                { ".bashrc", GATE_SHELL },
                { "package.json", GATE_PACKAGE },
                { "node_modules/.bin/x", GATE_NONE },
                { "lib.so", GATE_NONE },
                { "current", GATE_NONE },
        };

        for (size_t i = 0; i < ELEMENTSOF(links); i++) {
                GateClass got = gate_classify(links[i].path, TREE_LINK, 0);

                if (got != links[i].class)
                        fail_msg("%s: %s", links[i].path, gate_class_text(got));
        }
}

/* Names that a workload chooses, to cost time or to be taken for patterns. */
static void test_hostile_paths(void **state)
{
        char path[4096];

        memset(path, 0, sizeof(path));
        while (strlen(path) < sizeof(path) - 8)
                strcat(path, "hooks/");
        (void) gate_classify(path, TREE_FILE, 0);
        memset(path, '*', sizeof(path) - 1);
        assert_int_equal(gate_classify(path, TREE_FILE, 0), GATE_NONE);
        memset(path, '/', sizeof(path) - 1);
        assert_int_equal(gate_classify(path, TREE_LINK, 0), GATE_NONE);
        memset(path, 'a', sizeof(path) - 1);
        assert_int_equal(gate_classify(path, TREE_FILE, 0), GATE_NONE);
        assert_int_equal(gate_classify("**", TREE_FILE, 0), GATE_NONE);
        assert_int_equal(gate_classify("a\n/.git/hooks/\xff", TREE_FILE, 0), GATE_GIT);
        for (int c = GATE_NONE; c < _GATE_CLASS_MAX; c++)
                assert_string_not_equal(gate_class_text(c), "unknown");
        assert_string_equal(gate_class_text(_GATE_CLASS_MAX), "unknown");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_links),
                cmocka_unit_test(test_hostile_paths),
        };

        return cmocka_run_group_tests_name("copy-gate", tests, NULL, NULL);
}
