/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fnmatch.h>

#include "policy/policy-checks.h"

/* Variables by which whoever sets them has a program run other code than it was built with, or start another
 * program: named by the loaders' and interpreters' manuals. Not PATH, EDITOR, CC and the like, whose purpose
 * everybody knows and which are asked for on purpose; nor what only chooses a language, colours or a cache.
 */

/* Patterns of fnmatch(3). Of one reader a line where that fits. */
/* clang-format off */
static const char *const injecting[] = {
        /* The dynamic loader and the C library: code, converters, catalogues, resolver. */
        "LD_*", "DYLD_*", "*_PRELOAD", "GLIBC_TUNABLES*", "MALLOC_*", "GCONV_PATH*", "GETCONF_DIR", "LOCPATH",
        "NLSPATH", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_*", "TZDIR", "DATEMSK",
        "TERMCAP", "TERMINFO", "TERMINFO_DIRS", "TERMPATH",
        /* Shells. */
        "BASH_ENV", "ENV", "BASHOPTS", "SHELLOPTS", "BASH_FUNC_*", "BASH_LOADABLES_PATH", "PROMPT_COMMAND",
        "PS0", "PS4", "IFS", "CDPATH", "FPATH", "ZDOTDIR", "INPUTRC",
        /* Python. */
        "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONWARNINGS",
        "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX", "PYTHONEXECUTABLE",
        /* Perl, Ruby. */
        "PERL5LIB", "PERLLIB", "PERL5OPT", "PERL5DB", "PERL5SHELL", "PERLIO", "PERL_MB_OPT", "PERL_MM_OPT",
        "RUBYLIB", "RUBYOPT", "RUBYPATH", "RUBYSHELL", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE",
        /* JavaScript. npm takes its own in any case, see below. */
        "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_ICU_DATA", "DENO_DIR", "BUN_OPTIONS",
        /* Java and .NET. */
        "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "CLASSPATH", "MAVEN_ARGS",
        "MAVEN_OPTS", "GRADLE_OPTS", "ANT_OPTS", "ANT_ARGS", "SBT_OPTS",
        "DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "CORECLR_*", "COR_*PROFIL*",
        "MONO_PATH", "MONO_ENV_OPTIONS",
        /* Other languages. */
        "LUA_PATH*", "LUA_CPATH*", "LUA_INIT*", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE*", "R_ENVIRON*", "R_LIBS*",
        "JULIA_LOAD_PATH", "JULIA_DEPOT_PATH", "JULIA_PROJECT", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS",
        "ERL_LIBS", "ELIXIR_ERL_OPTIONS", "GUILE_LOAD_*", "TCLLIBPATH", "TCL_LIBRARY", "OCAMLPATH",
        "CAML_LD_LIBRARY_PATH", "GHC_PACKAGE_PATH", "EMACSLOADPATH", "VIMINIT", "EXINIT", "VIMRUNTIME",
        /* Compilers, linkers, builds. */
        "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
        "OBJC_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "CCACHE_COMPILER", "CCACHE_PREFIX", "MAKEFILES",
        "MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS", "RUSTC", "RUSTC_WRAPPER", "*_RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER", "*_WORKSPACE_WRAPPER", "CARGO_TARGET_*_RUNNER", "CARGO_TARGET_*_LINKER",
        "CARGO_BUILD_RUSTC*", "RUSTFLAGS", "GOFLAGS", "GOENV", "GOROOT", "GOTOOLDIR", "GOTOOLCHAIN",
        /* Programs that git, ssh, less start. */
        "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_CONFIG", "GIT_CONFIG_*", "GIT_EXTERNAL_DIFF",
        "GIT_PROXY_COMMAND", "GIT_ASKPASS", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER",
        "GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR", "SSH_ASKPASS", "SUDO_ASKPASS", "LESSOPEN",
        "LESSCLOSE",
        /* Libraries that load modules. */
        "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "KRB5_CONFIG", "SASL_PATH", "GTK_MODULES",
        "GTK_PATH", "GIO_MODULE_DIR", "GIO_EXTRA_MODULES", "GDK_PIXBUF_MODULE*", "GI_TYPELIB_PATH",
        "GST_PLUGIN_*", "QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH", "QML*_IMPORT_PATH",
        "MAGICK_*_PATH", "VK_*_FILENAMES", "VK_*LAYER_PATH", "OCL_ICD_*", "LIBGL_DRIVERS_PATH",
        "LIBVA_DRIVERS_PATH", "CUDA_INJECTION*", "ODBCINI", "ODBCSYSINI", "GDAL_DRIVER_PATH",
};
static const char *const injecting_any_case[] = {
        "npm_config_script?shell", "npm_config_node?options", "npm_config_*config", "npm_config_prefix",
        "npm_config_git", "npm_config_shell", "npm_config_editor", "npm_config_viewer", "npm_config_browser",
};
/* clang-format on */

static bool matches(const char *name, const char *const *patterns, size_t n, int flags)
{
        for (size_t i = 0; i < n; i++)
                if (fnmatch(patterns[i], name, flags) == 0)
                        return true;
        return false;
}

bool policy_env_name_injects(const char *name)
{
        return matches(name, injecting, ELEMENTSOF(injecting), 0) ||
               matches(name, injecting_any_case, ELEMENTSOF(injecting_any_case), FNM_CASEFOLD);
}
