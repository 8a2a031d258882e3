/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker/broker-verify.h"

/* The checks behind the rows of broker-verify.c, by witness. Each: 0 holds, 1 broken with its reason in why,
 * negative errno. */

/* verify-identity.c: from the attestation, who the process is */
int verify_uid(const VerifyInput *in, Buf *why);
int verify_groups(const VerifyInput *in, Buf *why);
int verify_capabilities(const VerifyInput *in, Buf *why);
int verify_no_new_privileges(const VerifyInput *in, Buf *why);
int verify_securebits(const VerifyInput *in, Buf *why);
int verify_seccomp(const VerifyInput *in, Buf *why);
int verify_escalation(const VerifyInput *in, Buf *why);
int verify_write_execute(const VerifyInput *in, Buf *why);
int verify_keyring(const VerifyInput *in, Buf *why);
int verify_resource_limits(const VerifyInput *in, Buf *why);
int verify_umask(const VerifyInput *in, Buf *why);
int verify_oom_score(const VerifyInput *in, Buf *why);
int verify_environment(const VerifyInput *in, Buf *why);
int verify_descriptors(const VerifyInput *in, Buf *why);

/* verify-world.c: from the attestation, what is around it */
int verify_namespaces(const VerifyInput *in, Buf *why);
int verify_network(const VerifyInput *in, Buf *why);
int verify_read_only(const VerifyInput *in, Buf *why);
int verify_workspace(const VerifyInput *in, Buf *why);
int verify_tmp(const VerifyInput *in, Buf *why);
int verify_landlock(const VerifyInput *in, Buf *why);
int verify_device_probes(const VerifyInput *in, Buf *why);
int verify_shared_memory(const VerifyInput *in, Buf *why);
int verify_devices(const VerifyInput *in, Buf *why);
int verify_proc(const VerifyInput *in, Buf *why);
int verify_sys(const VerifyInput *in, Buf *why);
int verify_host_services(const VerifyInput *in, Buf *why);

/* A tmpfs of at most this size, with the flags that this policy's have. */
int verify_sized_tmpfs(const VerifyInput *in, const char *path, const AttestFs *fs, uint64_t size, Buf *why);

/* verify-mounts.c */
int verify_mounts(const VerifyInput *in, Buf *why);
int verify_exposed(const VerifyInput *in, Buf *why);
/* The mount options and super block options of the topmost mount on path, newly allocated; -ENOENT. */
int mountinfo_find(const char *mountinfo, const char *path, char **ret_type, char **ret_options,
                char **ret_super);
/* The type of the mount with this id, newly allocated; -ENOENT. */
int mountinfo_type(const char *mountinfo, const char *id, char **ret_type);
/* Goes through a mount table: 1, with *line behind one entry; 0 at the end. */
int mountinfo_next(const char **line, char **ret_target, char **ret_type, char **ret_super);
/* Whether the option is in a list with commas. */
bool has_mount_option(const char *options, const char *option);

/* verify-credentials.c: what Credential= names */
int verify_credentials(const VerifyInput *in, Buf *why);
bool has_credentials(const VerifyInput *in);
/* Where they are, inside; newly allocated. */
int credentials_directory(const VerifyInput *in, char **ret);
/* Whether PID 1 mounts something of that type there for them. */
bool is_mount_of_credentials(const VerifyInput *in, const char *target, const char *type);

/* verify-view.c: the host's directory in the workspace */
int verify_view(const VerifyInput *in, Buf *why);
bool has_view(const VerifyInput *in);

/* verify-decoys.c: what Decoys= promises */
int verify_decoys(const VerifyInput *in, Buf *why);
bool has_decoys(const VerifyInput *in);

/* verify-cgroup.c: the kernel's side of the unit */
int verify_cgroup(const VerifyInput *in, Buf *why);
int verify_memory_limit(const VerifyInput *in, Buf *why);
int verify_swap_limit(const VerifyInput *in, Buf *why);
int verify_tasks_limit(const VerifyInput *in, Buf *why);
int verify_cpu_limit(const VerifyInput *in, Buf *why);
int verify_io_weight(const VerifyInput *in, Buf *why);
int verify_oom_group(const VerifyInput *in, Buf *why);
int verify_device_filter(const VerifyInput *in, Buf *why);
int verify_loopback_filter(const VerifyInput *in, Buf *why);
int verify_address_filter(const VerifyInput *in, Buf *why);

/* Whether a process whose /proc/PID/cgroup this is, is in in->control_group. */
int verify_membership(const VerifyInput *in, const char *lines, bool limits_cpu, Buf *why);
/* Whether the group in in->control_group has a program of this kind. */
int verify_program(const VerifyInput *in, unsigned attach_type, const char *what, Buf *why);

/* verify-warden.c: who guards a filtered run's network */
int verify_wall(const VerifyInput *in, Buf *why);
int verify_warden(const VerifyInput *in, Buf *why);
int verify_warden_limits(const VerifyInput *in, Buf *why);
int verify_warden_addresses(const VerifyInput *in, Buf *why);
int verify_warden_settings(const VerifyInput *in, Buf *why);
int verify_egress_record(const VerifyInput *in, Buf *why);
int verify_syscall_record(const VerifyInput *in, Buf *why);

/* verify-process.c: the same process, seen from outside */
int verify_process(const VerifyInput *in, Buf *why);
int verify_processes(const VerifyInput *in, Buf *why);
/* A file below the process's directory in /proc, at most max bytes; ret_size may be NULL. */
int verify_read_proc(const VerifyInput *in, const char *file, size_t max, char **ret, size_t *ret_size);

/* The value of "NAME:\tVALUE\n" in a file such as /proc/PID/status, as a new string; -ENOENT. */
int proc_status_field(const char *status, const char *name, char **ret);

/* verify-properties.c: the unit as PID 1 has it */
int verify_properties(const VerifyInput *in, Buf *why);
int verify_settings(const VerifyInput *in, Buf *why);

/* Appends to why and returns 1. */
int broken(Buf *why, const char *format, ...) _printf_(2, 3);
/* The number of that property in what was sent; -ENOENT where it was not sent. */
int sent_number(const VerifyInput *in, const char *name, uint64_t *ret);
bool was_sent(const VerifyInput *in, const char *name);
/* Whether probe had one of the allowed outcomes; a probe that was not tried never has. */
int probe_must_work(const VerifyInput *in, AttestProbe probe, Buf *why);
int probe_must_fail(
                const VerifyInput *in, AttestProbe probe, const int *allowed, size_t n_allowed, Buf *why);
bool egress_is_private(const VerifyInput *in); /* a network namespace of its own */
bool profile_is_strict(const VerifyInput *in);
bool id_is_dynamic(uint32_t id); /* of those that DynamicUser= gives */
