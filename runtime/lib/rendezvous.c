/*
 * rendezvous.c - makes one MPI job of processes of one machine that were started one by one and
 * share the path of a file. flashlight calls it FILE_SYSTEM.
 *
 * The first process makes the file and forks a helper: a PMIx server, which is also what MPI finds
 * under mpirun or srun. The file contains the name of the helper's socket. Over it every process
 * sends its rank and, once all have connected, gets the environment that MPI_Init needs. When all
 * have finalized, or one has failed (the helper then ends the others, as mpirun would), the helper
 * removes the file and exits. It sleeps in between.
 *
 * Other users of the machine are not trusted: the file has to belong to this user, only this user
 * may write to it, the process at the other end of the socket has to run as this user, and a
 * process takes over only variables whose names it knows.
 */
#include "runtime/lib/library.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pmix_server.h>

/* [bytes]: HELLO_MAX of the rank that a process sends, MESSAGE_MAX of the reply */
enum { HELLO_MAX = 512, MESSAGE_MAX = 65536, RANKS_MAX = WORKERS_MOST };

/* A new process has HELLO_S to send its rank, because no other can connect meanwhile. Processes
 * have END_S to end before they are killed, or after they were released; the helper checks every
 * POLL_MS. A process waits for the helper REPLY_S longer than the user's timeout, because the
 * helper knows which rank is missing. It checks the clock every WAIT_MS. */
enum { HELLO_S = 2, END_S = 2, POLL_MS = 20, REPLY_S = 10, WAIT_MS = 100 };
#define NO_DEADLINE INFINITY /* no process waits, or all have connected */

struct member {
	pid_t pid; /* 0: not connected */
	int sock, pidfd;
	bool ended;
	pmix_op_cbfunc_t release; /* lets its PMIx_Finalize return; NULL: not called */
	void *release_data;
};

/* Sent by PMIx's own thread to the helper's loop, through a pipe. */
struct event {
	bool abort;
	int rank;
	pmix_op_cbfunc_t done;
	void *data;
};

static struct {
	const char *file;
	char host[256], nspace[PMIX_MAX_NSLEN + 1], *dir;
	int size, come, wake[2];
	bool served;
	struct member *member;
} job;

static double now(void)
{
	return (double)clock_now() * 1e-9;
}

/* Does the process at the other end of the socket run as this user? */
static bool is_own_peer(int sock, struct ucred *peer)
{
	socklen_t length = sizeof *peer;
	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, peer, &length) == 0 &&
	       peer->uid == geteuid();
}

/* ---- The helper: PMIx's side ------------------------------------------------------ */

static pmix_status_t send_event(const struct event *event)
{
	ssize_t put = write(job.wake[1], event, sizeof *event);
	return put == sizeof *event ? PMIX_SUCCESS : PMIX_ERROR;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
				  void *data)
{
	(void)object;
	return send_event(&(struct event){.rank = (int)proc->rank, .done = done, .data = data});
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
			      pmix_proc_t procs[], size_t count, pmix_op_cbfunc_t done, void *data)
{
	(void)object, (void)status, (void)text, (void)procs, (void)count;
	return send_event(&(struct event){true, (int)proc->rank, done, data});
}

/* All ranks are clients of this one server, so what it has collected is already everything. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
			      size_t ninfo, char *bytes, size_t count, pmix_modex_cbfunc_t done,
			      void *data)
{
	(void)procs, (void)nprocs, (void)info, (void)ninfo;
	done(PMIX_SUCCESS, bytes, count, data, free, bytes);
	return PMIX_SUCCESS;
}

/* PMIx itself keeps the ranks' lists of files to remove, but only for hosts that have this. */
static pmix_status_t on_job_control(const pmix_proc_t *from, const pmix_proc_t targets[],
				    size_t ntargets, const pmix_info_t wishes[], size_t nwishes,
				    pmix_info_cbfunc_t done, void *data)
{
	(void)from, (void)targets, (void)ntargets, (void)wishes, (void)nwishes;
	(void)done, (void)data;
	return PMIX_ERR_NOT_SUPPORTED;
}

/* "0, 2": the ranks that have not connected, or all; heap. */
static char *list_ranks(bool all, const char *between)
{
	struct text t;
	FILE *f = text_open(&t);
	for (int r = 0, n = 0; r < job.size; r++)
		if (all || !job.member[r].pid)
			fprintf(f, "%s%d", n++ ? between : "", r);
	return text_close(&t);
}

static void load_u32(pmix_info_t *info, const char *key, uint32_t value)
{
	PMIX_INFO_LOAD(info, key, &value, PMIX_UINT32);
}

static void load_text(pmix_info_t *info, const char *key, const char *text)
{
	PMIX_INFO_LOAD(info, key, text, PMIX_STRING);
}

static void load_rank(pmix_info_t *info, int r)
{
	pmix_info_t *p;
	pmix_rank_t rank = (pmix_rank_t)r;
	uint16_t local = (uint16_t)r;
	PMIX_INFO_CREATE(p, 8);
	PMIX_INFO_LOAD(&p[0], PMIX_RANK, &rank, PMIX_PROC_RANK); /* must come first */
	PMIX_INFO_LOAD(&p[1], PMIX_GLOBAL_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&p[2], PMIX_APP_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&p[3], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&p[4], PMIX_NODE_RANK, &local, PMIX_UINT16);
	load_u32(&p[5], PMIX_APPNUM, 0);
	load_u32(&p[6], PMIX_NODEID, 0);
	load_text(&p[7], PMIX_HOSTNAME, job.host);
	info->value.type = PMIX_DATA_ARRAY;
	PMIX_LOAD_KEY(info->key, PMIX_PROC_INFO_ARRAY);
	info->value.data.darray = calloc(1, sizeof(pmix_data_array_t));
	*info->value.data.darray = (pmix_data_array_t){PMIX_INFO, 8, p};
}

/* NULL, or what failed. Every directory is inside job.dir, which the helper removes. */
static const char *start_server(void)
{
	static pmix_server_module_t module = {.client_finalized = on_finalized,
					      .abort = on_abort,
					      .fence_nb = on_fence,
					      .job_control = on_job_control};
	static const char *const counts[] = {PMIX_UNIV_SIZE,  PMIX_JOB_SIZE,  PMIX_APP_SIZE,
					     PMIX_LOCAL_SIZE, PMIX_NODE_SIZE, PMIX_MAX_PROCS};
	enum { COUNTS = sizeof counts / sizeof *counts, ALL = COUNTS + 8 };
	char *ranks = list_ranks(true, ","), *nodes, *procs;
	pmix_info_t *info;
	PMIX_INFO_CREATE(info, 3);
	load_text(&info[0], PMIX_SERVER_TMPDIR, job.dir);
	load_text(&info[1], PMIX_SYSTEM_TMPDIR, job.dir);
	load_text(&info[2], PMIX_HOSTNAME, job.host);
	if (PMIx_server_init(&module, info, 3) != PMIX_SUCCESS)
		return "PMIx_server_init failed";
	PMIX_INFO_FREE(info, 3);
	if (PMIx_generate_regex(job.host, &nodes) || PMIx_generate_ppn(ranks, &procs))
		return "PMIx_generate_regex failed";
	PMIX_INFO_CREATE(info, (size_t)(ALL + job.size));
	for (int i = 0; i < COUNTS; i++)
		load_u32(&info[i], counts[i], (uint32_t)job.size);
	PMIX_INFO_LOAD(&info[COUNTS], PMIX_NODE_MAP, nodes, PMIX_REGEX);
	PMIX_INFO_LOAD(&info[COUNTS + 1], PMIX_PROC_MAP, procs, PMIX_REGEX);
	load_text(&info[COUNTS + 2], PMIX_LOCAL_PEERS, ranks);
	load_text(&info[COUNTS + 3], PMIX_TMPDIR, job.dir);
	load_text(&info[COUNTS + 4], PMIX_NSDIR, job.dir);
	load_u32(&info[COUNTS + 5], PMIX_NUM_NODES, 1);
	load_u32(&info[COUNTS + 6], PMIX_JOB_NUM_APPS, 1);
	load_u32(&info[COUNTS + 7], PMIX_LOCALLDR, 0);
	for (int r = 0; r < job.size; r++)
		load_rank(&info[ALL + r], r);
	/* without a function to call, it returns when it is done; this is so for the others too */
	if (PMIx_server_register_nspace(job.nspace, job.size, info, (size_t)(ALL + job.size), NULL,
					NULL) != PMIX_OPERATION_SUCCEEDED)
		return "PMIx_server_register_nspace failed";
	for (int r = 0; r < job.size; r++) {
		pmix_proc_t proc;
		PMIX_LOAD_PROCID(&proc, job.nspace, (pmix_rank_t)r);
		if (PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, NULL, NULL) !=
		    PMIX_OPERATION_SUCCEEDED)
			return "PMIx_server_register_client failed";
	}
	return NULL;
}

/* ---- The helper: the members' side ------------------------------------------------ */

static _Noreturn void leave_helper(void)
{
	if (job.served) {
		/* This also removes the ranks' files in /dev/shm that Open MPI asked PMIx to. */
		for (int r = 0; r < job.size; r++) {
			pmix_proc_t proc;
			PMIX_LOAD_PROCID(&proc, job.nspace, (pmix_rank_t)r);
			PMIx_server_deregister_client(&proc, NULL, NULL);
		}
		PMIx_server_deregister_nspace(job.nspace, NULL, NULL);
		PMIx_server_finalize();
	}
	folder_remove(job.dir);
	_exit(0); /* not exit: the exit handlers belong to the program that forked */
}

static void reply(int sock, const char *kind, const char *text, size_t length)
{
	struct iovec part[2] = {{(void *)kind, 1}, {(void *)text, length}};
	struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
	sendmsg(sock, &message, MSG_NOSIGNAL);
	close(sock);
}

/* For failures before all ranks have connected: tells the waiting ones. Removes the file first, so
 * that it can be reused. */
static _Noreturn void give_up(const char *why)
{
	unlink(job.file);
	for (int r = 0; r < job.size; r++)
		if (job.member[r].pid)
			reply(job.member[r].sock, "-", why, strlen(why));
	leave_helper();
}

static void wait_ended(double seconds)
{
	for (double end = now() + seconds; now() < end; usleep(POLL_MS * 1000)) {
		int left = 0;
		for (int r = 0; r < job.size; r++) {
			struct pollfd p = {.fd = job.member[r].pidfd, .events = POLLIN};
			left += !(job.member[r].ended |= poll(&p, 1, 0) > 0);
		}
		if (!left)
			return;
	}
}

static _Noreturn void end_job(int rank, const char *what)
{
	fprintf(stderr,
		"mvbench: rank %d of %d (process %d on %s) %s, so the other ranks are ended\n",
		rank, job.size, (int)job.member[rank].pid, job.host, what);
	for (int pass = 0; pass < 2; pass++) {
		for (int r = 0; r < job.size; r++) {
			struct member *m = &job.member[r];
			if (r != rank && !m->ended)
				pidfd_send_signal(m->pidfd, pass ? SIGKILL : SIGTERM, NULL, 0);
		}
		wait_ended(END_S);
	}
	unlink(job.file);
	leave_helper();
}

static void send_environment(void)
{
	for (int r = 0; r < job.size; r++) {
		char **env = NULL, text[MESSAGE_MAX];
		size_t length = 0;
		pmix_proc_t proc;
		PMIX_LOAD_PROCID(&proc, job.nspace, (pmix_rank_t)r);
		PMIx_server_setup_fork(&proc, &env);
		for (char **e = env; e && *e; e++) {
			if (length + strlen(*e) + 1 >= sizeof text - 1)
				give_up("the environment for MPI_Init is too long");
			length += strlen(strcpy(text + length, *e)) + 1;
		}
		reply(job.member[r].sock, "+", text, length);
	}
}

/* Handles one new process; *deadline becomes the earliest time at which a process gives up. */
static void admit(int sock, double *deadline)
{
	struct timeval patience = {.tv_sec = HELLO_S};
	struct ucred peer = {0};
	char text[HELLO_MAX] = "", *no AUTOFREE = NULL;
	int rank, size;
	double timeout;
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	ssize_t got = is_own_peer(sock, &peer) ? recv(sock, text, sizeof text - 1, MSG_TRUNC) : 0;
	if (got <= 0 || got >= (ssize_t)sizeof text ||
	    sscanf(text, "%d %d %lf", &rank, &size, &timeout) != 3 || !(timeout >= 0)) {
		close(sock);
		return;
	}
	if (size != job.size) {
		no = sentence("%s was created for %d ranks, but rank %d was started as one of %d",
			      job.file, job.size, rank, size);
	} else if (rank < 0 || rank >= job.size) {
		no = sentence("rank %d is not possible: %s was created for %d ranks, from 0 on",
			      rank, job.file, job.size);
	} else if (job.member[rank].pid) {
		no = sentence("rank %d of %s is already taken by process %d on %s", rank, job.file,
			      (int)job.member[rank].pid, job.host);
	} else {
		struct member *m = &job.member[rank];
		*m = (struct member){.pid = peer.pid, .sock = sock};
		m->pidfd = pidfd_open(peer.pid, 0);
		if (m->pidfd < 0)
			give_up("a process could not be watched (pidfd_open failed)");
		if (*deadline > now() + timeout)
			*deadline = now() + timeout;
		if (++job.come == job.size) {
			*deadline = NO_DEADLINE;
			send_environment();
		}
	}
	if (no)
		reply(sock, "-", no, strlen(no));
}

/* Releases finalized ranks together, after removing the file: it can then be reused at once. */
static void count_finalized(void)
{
	for (int r = 0; r < job.size; r++)
		if (!job.member[r].release)
			return;
	unlink(job.file);
	for (int r = 0; r < job.size; r++)
		job.member[r].release(PMIX_SUCCESS, job.member[r].release_data);
	wait_ended(END_S);
	leave_helper();
}

static _Noreturn void run_helper(int listener)
{
	double began = now(), deadline = NO_DEADLINE;
	const char *wrong = NULL;
	struct pollfd *p = calloc((size_t)job.size + 2, sizeof *p);
	job.member = calloc((size_t)job.size, sizeof *job.member);
	snprintf(job.nspace, sizeof job.nspace, "rendezvous-%d", (int)getpid());
	if (!p || !job.member || folder_temporary("rendezvous", &job.dir) ||
	    pipe2(job.wake, O_CLOEXEC))
		_exit(1);
	wrong = start_server();
	job.served = !wrong;
	for (;;) {
		p[0] = (struct pollfd){.fd = listener, .events = POLLIN};
		p[1] = (struct pollfd){.fd = job.wake[0], .events = POLLIN};
		for (int r = 0; r < job.size; r++) {
			struct member *m = &job.member[r];
			p[r + 2] = (struct pollfd){.fd = m->pid && !m->ended ? m->pidfd : -1,
						   .events = POLLIN};
		}
		double left = deadline - now();
		int patience = left > 1e6 ? -1 : left > 0 ? (int)(left * 1e3) + 1 : 0;
		poll(p, (nfds_t)job.size + 2, patience);
		if (p[1].revents) {
			struct event e;
			if (read(job.wake[0], &e, sizeof e) != sizeof e)
				continue;
			if (e.abort) {
				e.done(PMIX_SUCCESS, e.data);
				end_job(e.rank, "called MPI_Abort");
			}
			job.member[e.rank].release = e.done;
			job.member[e.rank].release_data = e.data;
			count_finalized();
			continue; /* a finalized rank may exit: read its event before its pidfd */
		}
		for (int r = 0; r < job.size; r++) {
			struct member *m = &job.member[r];
			if (!p[r + 2].revents)
				continue;
			m->ended = true;
			if (job.come < job.size)
				give_up(sentence("rank %d (process %d on %s) ended "
						 "before all %d ranks had connected",
						 r, (int)m->pid, job.host, job.size));
			if (!m->release)
				end_job(r, "ended without MPI_Finalize");
		}
		if (p[0].revents)
			admit(accept4(listener, NULL, NULL, SOCK_CLOEXEC), &deadline);
		if (wrong && job.come)
			give_up(sentence("%s", wrong));
		if (now() > deadline)
			give_up(sentence("of %d ranks, %d had not connected to %s after %.0f s: %s",
					 job.size, job.size - job.come, job.file, now() - began,
					 list_ranks(false, ", ")));
	}
}

/* Forked twice, so that the program never sees a child that it did not start. */
static bool fork_helper(int listener)
{
	pid_t child = fork();
	if (child == 0) {
		setsid(); /* Ctrl-C is for the ranks only */
		if (fork())
			_exit(0);
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_IGN);
		/* Keep stderr for the message; close inherited pipes and devices. */
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0), dup2(null, 1), dup2(listener, 3);
		close_range(4, ~0U, 0);
		run_helper(3);
	}
	return child > 0 && waitpid(child, NULL, 0) == child;
}

/* ---- The process that calls ------------------------------------------------------- */

static socklen_t address(struct sockaddr_un *to, const char *name)
{
	*to = (struct sockaddr_un){.sun_family = AF_UNIX}; /* abstract: leaves no file */
	snprintf(to->sun_path + 1, sizeof to->sun_path - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(to->sun_path + 1));
}

/* NULL, or why another user may have written the file. */
static const char *distrust(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "is not a plain file";
	if (st->st_uid != geteuid())
		return "belongs to another user";
	return st->st_mode & (S_IWGRP | S_IWOTH) ? "can be written by other users" : NULL;
}

/* Another user's file is not locked, because its owner could hold the lock for ever. */
static char *open_locked(const char *file, int *fd)
{
	for (;;) {
		struct stat a, b;
		*fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
		if (*fd < 0 && errno == ELOOP)
			return sentence("%s is a symbolic link: name the file itself", file);
		if (*fd < 0 || fstat(*fd, &a))
			return sentence("%s: %s", file, strerror(errno));
		const char *why = distrust(&a);
		if (why)
			return sentence("%s %s, so nothing in it is used: remove it or name "
					"another one",
					file, why);
		if (flock(*fd, LOCK_EX))
			return sentence("%s: %s", file, strerror(errno));
		/* A helper may have removed the file between the two calls. */
		if (!lstat(file, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev)
			return NULL;
		close(*fd);
	}
}

/* With the file locked: connects to the helper that it names, or starts one. */
static char *reach_helper(const char *file, int sock)
{
	char text[512] = "", name[64], host[256];
	struct sockaddr_un to;
	int fd AUTOCLOSED = -1;
	TRY(open_locked(file, &fd));
	ssize_t got = pread(fd, text, sizeof text - 1, 0);
	if (got < 0)
		return sentence("%s cannot be read: %s", file, strerror(errno));
	if (got > 0) {
		if (sscanf(text, "rendezvous 1 %63s %255s", name, host) != 2)
			return sentence("%s is not a rendezvous file; remove it or "
					"name another one",
					file);
		if (strcmp(host, job.host))
			return sentence("%s was created on %s, and this process is on "
					"%s: all ranks must be on one node (if nothing runs there, "
					"remove the file)",
					file, host, job.host);
		if (!connect(sock, (struct sockaddr *)&to, address(&to, name)))
			return NULL;
		if (errno != ECONNREFUSED)
			return sentence("the helper of %s: %s", file, strerror(errno));
		/* No process listens: the file is left from a helper that was killed. Start a new
		 * one. */
	}
	snprintf(name, sizeof name, "rendezvous-%d-%lld", (int)getpid(), (long long)clock_now());
	int listener AUTOCLOSED = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	socklen_t to_length = address(&to, name);
	if (bind(listener, (struct sockaddr *)&to, to_length) || listen(listener, SOMAXCONN) ||
	    !fork_helper(listener) || connect(sock, (struct sockaddr *)&to, to_length))
		return sentence("no helper could be started: %s", strerror(errno));
	int length = snprintf(text, sizeof text, "rendezvous 1 %s %s\n", name, job.host);
	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)length, 0) != length)
		return sentence("%s cannot be written: %s", file, strerror(errno));
	return NULL;
}

/* What PMIx's client reads: exact names, or the beginnings of names that have a version in them.
 * Not all of PMIX_: PMIX_MCA_ and OMPI_MCA_ can name folders from which code is loaded. */
static bool rendezvous_is_known(const char *name)
{
	static const struct {
		const char *name;
		bool beginning;
	} known[] = {{"PMIX_NAMESPACE", false},     {"PMIX_RANK", false},
		     {"PMIX_SERVER_URI", true},     {"PMIX_SECURITY_MODE", false},
		     {"PMIX_PTL_MODULE", false},    {"PMIX_BFROP_BUFFER_TYPE", false},
		     {"PMIX_GDS_MODULE", false},    {"PMIX_HOSTNAME", false},
		     {"PMIX_VERSION", false},       {"PMIX_DSTORE_", true},
		     {"PMIX_SERVER_TMPDIR", false}, {"PMIX_SYSTEM_TMPDIR", false}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].beginning ? strncmp(name, known[i].name, strlen(known[i].name)) == 0
				       : strcmp(name, known[i].name) == 0)
			return true;
	return false;
}

/* Takes over the variables NAME=VALUE, which each end at a NUL; none of them if one is unknown. */
static char *take_over(char *text, const char *end, const char *file)
{
	for (char *e = text; e < end; e += strlen(e) + 1) {
		char *equals = strchr(e, '=');
		if (!equals)
			return sentence("the helper of %s sent a variable without a value", file);
		*equals = '\0';
		if (!rendezvous_is_known(e))
			return sentence(
				"the helper of %s sent the variable %s, which MPI_Init does "
				"not need: no variable is taken over",
				file, e);
		*equals = '=';
	}
	for (char *e = text, *next; e < end; e = next) {
		next = e + strlen(e) + 1;
		char *value = strchr(e, '=');
		*value = '\0';
		setenv(e, value + 1, 1);
	}
	return NULL;
}

/* Sends this rank, waits for all others, and takes over the environment for MPI_Init. */
static char *rendezvous_join(int sock, const char *file, int rank, int size, double timeout_s)
{
	char text[MESSAGE_MAX];
	struct ucred peer = {0};
	if (!is_own_peer(sock, &peer))
		return sentence("the helper of %s runs as another user (%d): remove the file or "
				"name another one",
				file, (int)peer.uid);
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int length = snprintf(text, sizeof text, "%d %d %f", rank, size, timeout_s);
	double end = now() + timeout_s + REPLY_S;
	ssize_t got = -1;
	if (send(sock, text, (size_t)length, MSG_NOSIGNAL) == length) {
		while (poll(&p, 1, WAIT_MS) <= 0 && now() < end)
			;
		got = recv(sock, text, sizeof text - 1, MSG_DONTWAIT | MSG_TRUNC);
	}
	if (got <= 0)
		return sentence("the helper of %s has gone or does not answer", file);
	if (got >= (ssize_t)sizeof text)
		return sentence("the helper of %s sent more than %d bytes", file, MESSAGE_MAX - 1);
	text[got] = '\0';
	if (*text == '-')
		return strdup(text + 1);
	TRY(take_over(text + 1, text + got, file));
	/* Without these, Open MPI 4 guesses the launcher as "not launched", whatever PMIx says. */
	setenv("OMPI_MCA_schizo", "^orte,slurm", 1);
	setenv("OMPI_MCA_ess", "pmi", 1);
	ranks_stay_off_the_network(size);
	if (size > usable_cores())
		setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* as mpirun does */
	return NULL;
}

char *rendezvous(const char *file, int rank, int size, double timeout_s)
{
	if (size < 1 || size > RANKS_MAX || rank < 0 || rank >= size)
		return sentence("rank %d of %d is not possible", rank, size);
	job.file = file;
	job.size = size;
	gethostname(job.host, sizeof job.host - 1);
	int sock AUTOCLOSED = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return sentence("socket: %s", strerror(errno));
	TRY(reach_helper(file, sock));
	return rendezvous_join(sock, file, rank, size, timeout_s);
}
