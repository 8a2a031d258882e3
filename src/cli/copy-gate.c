/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cli/copy-gate.h"

/* The end of a path: component by component, "*" within one, "**" for any number of them. First match
 * counts. */
static const struct {
        GateClass class;
        const char *pattern;
} rules[] = {
        /* Hooks and configuration (which names programs: fsmonitor, sshCommand, filters, aliases), of a
         * submodule or worktree too, and of a repository that has no ".git": git finds one wherever HEAD,
         * objects and refs lie together. */
        { GATE_GIT, ".git" }, /* a file that says where the repository is */
        { GATE_GIT, ".git/**/hooks/**" },
        { GATE_GIT, ".git/**/config" },
        { GATE_GIT, ".git/**/config.worktree" },
        { GATE_GIT, ".git/info/attributes" },
        { GATE_GIT, ".git/**/commondir" },
        { GATE_GIT, ".git/**/gitdir" },
        { GATE_GIT, "*.git/hooks/**" },
        { GATE_GIT, "*.git/config" },
        { GATE_GIT, "hooks/applypatch-msg" },
        { GATE_GIT, "hooks/commit-msg" },
        { GATE_GIT, "hooks/fsmonitor-watchman" },
        { GATE_GIT, "hooks/p4-*" },
        { GATE_GIT, "hooks/post-*" },
        { GATE_GIT, "hooks/pre-*" },
        { GATE_GIT, "hooks/prepare-commit-msg" },
        { GATE_GIT, "hooks/proc-receive" },
        { GATE_GIT, "hooks/push-to-checkout" },
        { GATE_GIT, "hooks/reference-transaction" },
        { GATE_GIT, "hooks/sendemail-validate" },
        { GATE_GIT, "hooks/update" },
        { GATE_GIT, ".gitconfig" },
        { GATE_GIT, ".config/git/config" },
        { GATE_GIT, ".gitmodules" },
        { GATE_GIT, ".gitattributes" },
        { GATE_GIT, ".githooks/**" },
        { GATE_GIT, ".husky/**" },
        { GATE_GIT, ".pre-commit-config.yaml" },
        { GATE_GIT, "lefthook.y*ml" },
        { GATE_GIT, ".lefthook.y*ml" },
        { GATE_GIT, ".hg/hgrc" },

        { GATE_CI, ".github/workflows/**" },
        { GATE_CI, ".github/actions/**" },
        { GATE_CI, "action.y*ml" },
        { GATE_CI, ".gitlab-ci.y*ml" },
        { GATE_CI, ".gitlab/**" },
        { GATE_CI, ".forgejo/**" },
        { GATE_CI, ".gitea/**" },
        { GATE_CI, ".woodpecker/**" },
        { GATE_CI, ".woodpecker.y*ml" },
        { GATE_CI, ".circleci/**" },
        { GATE_CI, ".buildkite/**" },
        { GATE_CI, ".builds/**" },
        { GATE_CI, ".build.yml" },
        { GATE_CI, ".ci/**" },
        { GATE_CI, ".travis.y*ml" },
        { GATE_CI, ".appveyor.y*ml" },
        { GATE_CI, "appveyor.y*ml" },
        { GATE_CI, ".cirrus.y*ml" },
        { GATE_CI, ".cirrus.star" },
        { GATE_CI, ".drone.y*ml" },
        { GATE_CI, ".drone.star" },
        { GATE_CI, ".semaphore/**" },
        { GATE_CI, ".teamcity/**" },
        { GATE_CI, "azure-pipelines*.y*ml" },
        { GATE_CI, "bitbucket-pipelines.y*ml" },
        { GATE_CI, "buildspec.y*ml" },
        { GATE_CI, "cloudbuild*.y*ml" },
        { GATE_CI, "jenkinsfile*" },
        { GATE_CI, "renovate.json*" },
        { GATE_CI, ".readthedocs.y*ml" },

        { GATE_SHELL, ".bash_login" },
        { GATE_SHELL, ".bash_logout" },
        { GATE_SHELL, ".bash_profile" },
        { GATE_SHELL, ".bash_aliases" },
        { GATE_SHELL, ".bashrc" },
        { GATE_SHELL, ".bash_completion" },
        { GATE_SHELL, ".profile" },
        { GATE_SHELL, ".login" },
        { GATE_SHELL, ".logout" },
        { GATE_SHELL, ".cshrc" },
        { GATE_SHELL, ".tcshrc" },
        { GATE_SHELL, ".kshrc" },
        { GATE_SHELL, ".mkshrc" },
        { GATE_SHELL, ".zlogin" },
        { GATE_SHELL, ".zlogout" },
        { GATE_SHELL, ".zprofile" },
        { GATE_SHELL, ".zshenv" },
        { GATE_SHELL, ".zshrc" },
        { GATE_SHELL, ".config/fish/**" },
        { GATE_SHELL, ".config/nushell/**" },
        { GATE_SHELL, "profile.ps1" },
        { GATE_SHELL, "microsoft.powershell_profile.ps1" },
        { GATE_SHELL, ".inputrc" },
        { GATE_SHELL, ".envrc" },
        { GATE_SHELL, ".autoenv*" },
        { GATE_SHELL, ".pam_environment" },
        { GATE_SHELL, ".config/environment.d/**" },
        { GATE_SHELL, ".config/autostart/**" },
        { GATE_SHELL, ".config/systemd/**" },
        { GATE_SHELL, ".local/share/systemd/**" },
        { GATE_SHELL, ".local/share/applications/**" },
        { GATE_SHELL, ".local/share/dbus-1/**" },
        { GATE_SHELL, ".local/bin/**" },
        { GATE_SHELL, "*.desktop" },
        { GATE_SHELL, ".xinitrc" },
        { GATE_SHELL, ".xprofile" },
        { GATE_SHELL, ".xsession*" },
        { GATE_SHELL, ".ssh/authorized_keys*" },
        { GATE_SHELL, ".ssh/config" },
        { GATE_SHELL, ".ssh/config.d/**" },
        { GATE_SHELL, ".ssh/environment" },
        { GATE_SHELL, ".ssh/rc" },
        { GATE_SHELL, ".forward" },
        { GATE_SHELL, ".procmailrc" },
        { GATE_SHELL, ".mailcap" },
        { GATE_SHELL, ".screenrc" },
        { GATE_SHELL, ".tmux.conf" },
        { GATE_SHELL, ".config/tmux/**" },
        { GATE_SHELL, ".psqlrc" },
        { GATE_SHELL, ".sqliterc" },
        { GATE_SHELL, ".irbrc" },
        { GATE_SHELL, ".pryrc" },
        { GATE_SHELL, ".rprofile" },
        { GATE_SHELL, ".pythonrc*" },
        { GATE_SHELL, ".pdbrc" },
        { GATE_SHELL, ".gdbinit" },
        { GATE_SHELL, ".lldbinit*" },
        { GATE_SHELL, ".perldb" },
        { GATE_SHELL, ".octaverc" },
        { GATE_SHELL, "sitecustomize.py" },
        { GATE_SHELL, "usercustomize.py" },
        { GATE_SHELL, "*.pth" },
        { GATE_SHELL, ".docker/config.json" },
        { GATE_SHELL, ".kube/config" },
        { GATE_SHELL, ".aws/config" },
        { GATE_SHELL, ".gnupg/*.conf" },

        { GATE_EDITOR, ".vscode/**" },
        { GATE_EDITOR, "*.code-workspace" },
        { GATE_EDITOR, ".devcontainer/**" },
        { GATE_EDITOR, ".devcontainer.json" },
        { GATE_EDITOR, "devcontainer.json" },
        { GATE_EDITOR, ".idea/**" },
        { GATE_EDITOR, ".run/*.run.xml" },
        { GATE_EDITOR, ".fleet/**" },
        { GATE_EDITOR, ".zed/**" },
        { GATE_EDITOR, ".vs/**" },
        { GATE_EDITOR, "*.sublime-project" },
        { GATE_EDITOR, "*.sublime-build" },
        { GATE_EDITOR, ".vimrc" },
        { GATE_EDITOR, "_vimrc" },
        { GATE_EDITOR, ".gvimrc" },
        { GATE_EDITOR, ".exrc" },
        { GATE_EDITOR, ".nvimrc" },
        { GATE_EDITOR, ".nvim.lua" },
        { GATE_EDITOR, ".vim/**" },
        { GATE_EDITOR, ".config/nvim/**" },
        { GATE_EDITOR, ".emacs" },
        { GATE_EDITOR, ".emacs.d/**" },
        { GATE_EDITOR, ".config/emacs/**" },
        { GATE_EDITOR, ".dir-locals*.el" },
        { GATE_EDITOR, ".projectile" },
        { GATE_EDITOR, ".helix/**" },
        { GATE_EDITOR, ".config/helix/**" },
        { GATE_EDITOR, ".nanorc" },
        { GATE_EDITOR, ".mcp.json" },
        { GATE_EDITOR, "mcp.json" },
        { GATE_EDITOR, ".claude/**" },
        { GATE_EDITOR, ".claude.json" },
        { GATE_EDITOR, ".codex/**" },
        { GATE_EDITOR, ".cursor/**" },
        { GATE_EDITOR, ".continue/**" },
        { GATE_EDITOR, ".gemini/**" },
        { GATE_EDITOR, ".opencode/**" },
        { GATE_EDITOR, ".aider*" },
        { GATE_EDITOR, ".windsurf/**" },
        { GATE_EDITOR, ".ipython/**" },
        { GATE_EDITOR, ".jupyter/**" },

        { GATE_PACKAGE, "package.json" },
        { GATE_PACKAGE, ".npmrc" },
        { GATE_PACKAGE, ".yarnrc*" },
        { GATE_PACKAGE, ".yarn/**" },
        { GATE_PACKAGE, ".pnpmfile.*js" },
        { GATE_PACKAGE, "binding.gyp" },
        { GATE_PACKAGE, "bunfig.toml" },
        { GATE_PACKAGE, "deno.json*" },
        { GATE_PACKAGE, "setup.py" },
        { GATE_PACKAGE, "setup.cfg" },
        { GATE_PACKAGE, "pyproject.toml" },
        { GATE_PACKAGE, "conftest.py" },
        { GATE_PACKAGE, "pytest.ini" },
        { GATE_PACKAGE, "tox.ini" },
        { GATE_PACKAGE, "noxfile.py" },
        { GATE_PACKAGE, "tasks.py" },
        { GATE_PACKAGE, "pip.conf" },
        { GATE_PACKAGE, ".pypirc" },
        { GATE_PACKAGE, "build.rs" },
        { GATE_PACKAGE, "cargo.toml" },
        { GATE_PACKAGE, ".cargo/**" },
        { GATE_PACKAGE, "rust-toolchain*" },
        { GATE_PACKAGE, "build.zig*" },
        { GATE_PACKAGE, "makefile*" },
        { GATE_PACKAGE, "gnumakefile" },
        { GATE_PACKAGE, "justfile" },
        { GATE_PACKAGE, ".justfile" },
        { GATE_PACKAGE, "taskfile.y*ml" },
        { GATE_PACKAGE, "rakefile*" },
        { GATE_PACKAGE, "gemfile" },
        { GATE_PACKAGE, "*.gemspec" },
        { GATE_PACKAGE, ".bundle/config" },
        { GATE_PACKAGE, "composer.json" },
        { GATE_PACKAGE, "mix.exs" },
        { GATE_PACKAGE, "build.gradle*" },
        { GATE_PACKAGE, "settings.gradle*" },
        { GATE_PACKAGE, "init.gradle*" },
        { GATE_PACKAGE, "gradle.properties" },
        { GATE_PACKAGE, "gradle/wrapper/**" },
        { GATE_PACKAGE, "gradlew*" },
        { GATE_PACKAGE, "buildsrc/**" },
        { GATE_PACKAGE, "mvnw*" },
        { GATE_PACKAGE, ".mvn/**" },
        { GATE_PACKAGE, "pom.xml" },
        { GATE_PACKAGE, "build.xml" },
        { GATE_PACKAGE, "build.sbt" },
        { GATE_PACKAGE, "project/*.sbt" },
        { GATE_PACKAGE, "*.csproj" },
        { GATE_PACKAGE, "*.fsproj" },
        { GATE_PACKAGE, "*.vcxproj" },
        { GATE_PACKAGE, "directory.build.*" },
        { GATE_PACKAGE, "nuget.config" },
        { GATE_PACKAGE, "package.swift" },
        { GATE_PACKAGE, "cmakelists.txt" },
        { GATE_PACKAGE, "cmakepresets.json" },
        { GATE_PACKAGE, "configure.ac" },
        { GATE_PACKAGE, "meson.build" },
        { GATE_PACKAGE, "sconstruct" },
        { GATE_PACKAGE, "wscript" },
        { GATE_PACKAGE, "build.bazel" },
        { GATE_PACKAGE, "workspace.bazel" },
        { GATE_PACKAGE, "module.bazel" },
        { GATE_PACKAGE, ".bazelrc" },
        { GATE_PACKAGE, "dockerfile*" },
        { GATE_PACKAGE, "containerfile*" },
        { GATE_PACKAGE, "docker-compose*.y*ml" },
        { GATE_PACKAGE, "compose.y*ml" },
        { GATE_PACKAGE, "vagrantfile" },
        { GATE_PACKAGE, "procfile" },
        { GATE_PACKAGE, "flake.nix" },
        { GATE_PACKAGE, "default.nix" },
        { GATE_PACKAGE, "shell.nix" },
        { GATE_PACKAGE, ".tool-versions" },
        { GATE_PACKAGE, ".mise.toml" },
        { GATE_PACKAGE, "mise.toml" },
        { GATE_PACKAGE, ".wgetrc" },
        { GATE_PACKAGE, ".curlrc" },
};

static const char *const class_texts[_GATE_CLASS_MAX] = {
        [GATE_NONE] = "nothing",
        [GATE_GIT] = "git obeys it",
        [GATE_CI] = "CI obeys it",
        [GATE_SHELL] = "read at a start of a shell or program",
        [GATE_EDITOR] = "an editor or agent obeys it",
        [GATE_PACKAGE] = "executed by builds, tests or installs",
        [GATE_EXECUTABLE] = "a program",
};

const char *gate_class_text(GateClass c)
{
        return (unsigned) c < _GATE_CLASS_MAX ? class_texts[c] : "unknown";
}

/* Where the last component of the first n bytes begins. */
static size_t last_component(const char *path, size_t n)
{
        while (n > 0 && path[n - 1] != '/')
                n--;
        return n;
}

static char lower(char c)
{
        if (c >= 'A' && c <= 'Z')
                return (char) (c - 'A' + 'a');
        return c;
}

/* "*" stands for any bytes; patterns are written in lower case. */
static bool component_matches(const char *pattern, size_t k, const char *text, size_t n)
{
        size_t star = SIZE_MAX, resume = 0, i = 0, j = 0;

        while (j < n) {
                if (i < k && pattern[i] == '*') {
                        star = i++;
                        resume = j;
                } else if (i < k && pattern[i] == lower(text[j])) {
                        i++;
                        j++;
                } else if (star != SIZE_MAX) {
                        i = star + 1;
                        j = ++resume;
                } else
                        return false;
        }
        while (i < k && pattern[i] == '*')
                i++;
        return i == k;
}

/* Whether the first n bytes of path end with the first k of pattern. */
static bool ends_with(const char *path, size_t n, const char *pattern, size_t k)
{
        size_t at = last_component(pattern, k), before = at > 0 ? at - 1 : 0, start;

        if (k == 0)
                return true;
        if (k - at == 2 && memcmp(pattern + at, "**", 2) == 0)
                for (;;) {
                        if (ends_with(path, n, pattern, before))
                                return true;
                        if (n == 0)
                                return false;
                        start = last_component(path, n);
                        n = start > 0 ? start - 1 : 0;
                }
        if (n == 0)
                return false;
        start = last_component(path, n);
        return component_matches(pattern + at, k - at, path + start, n - start) &&
               ends_with(path, start > 0 ? start - 1 : 0, pattern, before);
}

static bool matches(const char *path, const char *pattern, TreeType type)
{
        size_t n = strlen(path), k = strlen(pattern);

        if (ends_with(path, n, pattern, k))
                return true;
        if (type != TREE_LINK)
                return false;
        /* Whoever looks for a directory of the pattern finds this link, and goes where it leads. */
        for (k = last_component(pattern, k); k > 0; k = last_component(pattern, k - 1))
                if (pattern[k - 2] != '*' && ends_with(path, n, pattern, k - 1))
                        return true;
        return false;
}

GateClass gate_classify(const char *path, TreeType type, uint32_t mode)
{
        if (type != TREE_FILE && type != TREE_LINK)
                return GATE_NONE;
        for (size_t i = 0; i < ELEMENTSOF(rules); i++)
                if (matches(path, rules[i].pattern, type))
                        return rules[i].class;
        return type == TREE_FILE && (mode & 0111) ? GATE_EXECUTABLE : GATE_NONE;
}
