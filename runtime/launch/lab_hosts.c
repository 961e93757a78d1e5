/*
 * lab_hosts.c - the hosts of a lab, and the wires between them.
 *
 * A host is a process with its own namespaces: network, processes, host name, mounts (its own
 * /dev/shm; all other files are shared), IPC, and a monotonic clock that is ahead of this
 * machine's, because clocks of real machines differ too. It has its share of the cores. Each host
 * has one wire (a pair of virtual Ethernet devices) to a bridge, the switch. One process is the
 * parent of all; the lab ends with it. Without root it is root in its own user namespace.
 *
 * Shaping: a token bucket (tc tbf) at both ends of each wire gives each direction the whole rate.
 * Data that fits into the bucket passes at once: it holds 1 ms of the rate, or two packets.
 */
#include "runtime/config/clusters.h"
#include "runtime/config/hosts.h"
#include "runtime/launch/lab.h"
#include "runtime/world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAB_NETWORK "10.78.0.0/16"

const char *lab_name(int k, char name[LAB_NAME])
{
	snprintf(name, LAB_NAME, "lab%d", k);
	return name;
}

/* ---- Parts of a lab ------------------------------------------------------ */

char *lab_shape(const char *rate)
{
	/* A queue shorter than one burst of TCP drops its end, which is then sent again late. */
	enum { PACKETS = 3028, QUEUE_LEAST = 1 << 18 };
	double bytes = bit_rate(rate) / 8, bucket = 1e-3 * bytes, queue = 50e-3 * bytes;
	return sentence("root tbf rate %.0fbit burst %.0f limit %.0f", 8 * bytes,
			bucket > PACKETS ? bucket : PACKETS,
			queue > QUEUE_LEAST ? queue : QUEUE_LEAST);
}

static char *failed(const char *what)
{
	return sentence("a lab needs %s, which this machine does not allow here (%s)", what,
			strerror(errno));
}

static bool write_text(const char *path, const char *text)
{
	int fd AUTOCLOSED = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

char *lab_rate_read(const char *host)
{
	char *path AUTOFREE = sentence(LAB_FOLDER "/%s.rate", host), *text = text_read(path);
	return text ? text : must(strdup("none"));
}

void lab_file_write(const char *host, const char *ending, const char *text)
{
	char *path AUTOFREE = sentence(LAB_FOLDER "/%s.%s", host, ending);
	write_text(path, text);
}

/* Enters new namespaces: as root, otherwise as root of a new user namespace. */
static char *enter_namespaces(void)
{
	int own = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC;
	uid_t user = geteuid();
	gid_t group = getegid();
	if (unshare(own) == 0)
		return NULL;
	if (unshare(own | CLONE_NEWUSER) != 0)
		return failed("namespaces");
	char *users AUTOFREE = sentence("0 %u 1", user),
		    *groups AUTOFREE = sentence("0 %u 1", group);
	if (!write_text("/proc/self/setgroups", "deny") ||
	    !write_text("/proc/self/uid_map", users) || !write_text("/proc/self/gid_map", groups))
		return failed("a user namespace");
	return NULL;
}

/* Runs a program with this text as input, in the network namespace of a process (0: this one's). */
static char *batch(const char *program, pid_t network, const char *text)
{
	FILE *f = tmpfile();
	int ended = -1;
	if (!f)
		return failed("a temporary file");
	fputs(text, f);
	rewind(f);
	pid_t child = fork();
	if (child == 0) {
		char *path AUTOFREE = sentence("/proc/%d/ns/net", (int)network);
		int fd = network ? open(path, O_RDONLY) : -1;
		if (network && setns(fd, CLONE_NEWNET) != 0)
			_exit(126);
		dup2(fileno(f), STDIN_FILENO);
		execlp(program, program, "-batch", "-", (char *)NULL);
		_exit(127);
	}
	fclose(f);
	if (child > 0)
		waitpid(child, &ended, 0);
	if (ended == 0)
		return NULL;
	if (WIFEXITED(ended) && WEXITSTATUS(ended) == 127)
		return sentence("%s: there is no such program; a lab needs the package iproute2",
				program);
	return sentence("%s could not make the wires of the lab; see its messages above", program);
}

/* Host k of n gets an equal number of cores, or shares a core. */
static void take_cores(int k, int64_t n)
{
	cpu_set_t all, mine;
	CPU_ZERO(&mine);
	if (sched_getaffinity(0, sizeof all, &all) != 0)
		return;
	int cores = CPU_COUNT(&all), each = cores / (int)n, seen = 0;
	int first = each ? (k - 1) * each : (k - 1) % cores, end = first + (each ? each : 1);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && seen++ >= first && seen <= end)
			CPU_SET(cpu, &mine);
	sched_setaffinity(0, sizeof mine, &mine);
}

/* The environment of every command on a host: mpirun reaches the other hosts, and only over the
 * wires of the lab. */
static void set_variables(const struct lab *l, const char *name)
{
	char *folder AUTOFREE = sentence(LAB_FOLDER "/%s.tmp", name);
	char *what AUTOFREE = sentence("lab %s", l->rate);
	mkdir(folder, 0777);
	setenv("TMPDIR", folder, 1);
	setenv("MVBENCH_NETWORK", what, 1);
	setenv("MVBENCH_UNBOUND", "1", 1); /* a host's cores are not numbered from 0 */
	setenv(HOSTFILE_VARIABLE, LAB_FOLDER "/hosts", 1);
	setenv("OMPI_MCA_orte_default_hostfile", LAB_FOLDER "/hosts", 1);
	setenv("OMPI_MCA_plm_rsh_agent", "sh " LAB_FOLDER "/agent", 1);
	setenv("OMPI_MCA_btl_tcp_if_include", LAB_NETWORK, 1);
	setenv("OMPI_MCA_oob_tcp_if_include", LAB_NETWORK, 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	if (l->hosts > usable_cores())
		setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* For processes that stay: keeps no caller's pipe open. */
static void close_standard_files(void)
{
	int null = open("/dev/null", O_RDWR);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	close(null);
}

/* Does not return: waits for the child. Closes ready and first, which only the child uses. */
static void only_wait(pid_t child, int ready, int first)
{
	close(ready);
	if (first >= 0)
		close(first);
	close_standard_files();
	waitpid(child, NULL, 0);
	_exit(EXIT_OK);
}

/* ---- A host -------------------------------------------------------------- */

/* Does not return. The main loop of a host. ready: gets a byte when the host accepts commands. */
static void live(const struct lab *l, int k, int ready, int first)
{
	char name[LAB_NAME];
	int socket_of_host = lab_listen(lab_name(k, name));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* lab off kills its parent */
	sethostname(name, strlen(name));
	set_variables(l, name);
	take_cores(k, l->hosts);
	mkdir("/dev/shm", 01777);
	if (mount("proc", "/proc", "proc", 0, NULL) != 0 ||
	    mount("shm", "/dev/shm", "tmpfs", 0, "mode=1777") != 0 || socket_of_host < 0)
		_exit(EXIT_FAILED);
	/* bbr lets equal exchanges in both directions take 10 to 25 % more than the rate allows,
	 * each time another amount; reno takes 2 % more. All kernels have it. */
	write_text("/proc/sys/net/ipv4/tcp_congestion_control", "reno\n");
	write_all(ready, name, 1);
	close(ready);
	if (first >= 0 && fork() == 0)
		lab_serve_one(first);
	if (first >= 0)
		close(first);
	close_standard_files();
	lab_serve(socket_of_host);
}

/* Does not return: waits for the first process of the new process namespace. */
static void begin_host(const struct lab *l, int k, int ready, int first)
{
	long long ahead = llround(1e9 * k * l->offset), s = ahead / 1000000000,
		  ns = ahead % 1000000000;
	char *clocks AUTOFREE = sentence("monotonic %lld %lld\nboottime %lld %lld\n", s, ns, s, ns);
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC) != 0)
		_exit(EXIT_FAILED);
	if (l->offset > 0 && unshare(CLONE_NEWTIME) == 0)
		write_text("/proc/self/timens_offsets", clocks);
	pid_t child = fork();
	if (child == 0)
		live(l, k, ready, first);
	only_wait(child, ready, first);
}

/* first: host 1's connection to the builder of the lab. */
static char *begin_hosts(const struct lab *l, pid_t *host, int first)
{
	int ready[2], said = 0;
	char byte, name[LAB_NAME];
	if (pipe2(ready, O_CLOEXEC) != 0)
		return failed("a pipe");
	for (int k = 1; k <= l->hosts; k++) {
		host[k] = fork();
		if (host[k] == 0) {
			close(ready[0]);
			if (k > 1)
				close(first);
			begin_host(l, k, ready[1], k == 1 ? first : -1);
		}
		char *pid AUTOFREE = sentence("%d\n", (int)host[k]); /* as seen by the switch */
		lab_file_write(lab_name(k, name), "pid", pid);
		lab_file_write(name, "rate", l->rate);
	}
	close(ready[1]);
	close(first);
	while (read(ready[0], &byte, 1) == 1)
		said++;
	close(ready[0]);
	return said == l->hosts ? NULL : failed("nested namespaces and their mounts");
}

/* ---- The switch ---------------------------------------------------------- */

/* Makes and shapes all wires; runs in the switch. */
static char *lay_wires(const struct lab *l, const pid_t *host)
{
	struct text wires, shapes;
	FILE *ip = text_open(&wires), *tc = text_open(&shapes);
	char *shape AUTOFREE = lab_shape(l->rate), name[LAB_NAME];
	bool shaped = bit_rate(l->rate) > 0;
	fputs("link set lo up\nlink add switch type bridge forward_delay 0 mcast_snooping 0\n"
	      "link set switch up\n",
	      ip);
	for (int k = 1; k <= l->hosts; k++) {
		lab_name(k, name);
		fprintf(ip,
			"link add %s type veth peer name eth0 netns %d\n"
			"link set %s master switch up\n",
			name, (int)host[k], name);
		if (shaped)
			fprintf(tc, "qdisc add dev %s %s\n", name, shape);
	}
	char *of_switch AUTOFREE = text_close(&wires), *of_wires AUTOFREE = text_close(&shapes);
	TRY(batch("ip", 0, of_switch));
	TRY(batch("tc", 0, of_wires));
	for (int k = 1; k <= l->hosts; k++) {
		char *of_host AUTOFREE = sentence("link set lo up\naddress add 10.78.%d.%d/16 dev "
						  "eth0\nlink set eth0 up\n",
						  k / 250, k % 250 + 1);
		char *end AUTOFREE = sentence("qdisc add dev eth0 %s\n", shape);
		TRY(batch("ip", host[k], of_host));
		if (shaped)
			TRY(batch("tc", host[k], end));
	}
	return NULL;
}

/* Writes the lists of hosts: mpirun's hostfile, and /etc/hosts; and the script by which mpirun
 * reaches a host. Open MPI would split the program's path at blanks and colons. */
static char *write_lists(const struct lab *l)
{
	struct text list, names, script;
	FILE *hosts = text_open(&list), *etc = text_open(&names), *agent = text_open(&script);
	char *self AUTOFREE = program_path();
	fputs("exec '", agent);
	for (const char *c = self; *c; c++)
		fprintf(agent, *c == '\'' ? "'\\%c'" : "%c", *c);
	fputs("' lab rsh -- \"$@\"\n", agent);
	fputs("127.0.0.1 localhost\n", etc);
	for (int k = 1; k <= l->hosts; k++) {
		char name[LAB_NAME];
		fprintf(hosts, "%s\n", lab_name(k, name));
		fprintf(etc, "10.78.%d.%d %s\n", k / 250, k % 250 + 1, name);
	}
	char *of_mpirun AUTOFREE = text_close(&list), *of_names AUTOFREE = text_close(&names),
			*of_agent AUTOFREE = text_close(&script);
	if (!write_text(LAB_FOLDER "/hosts", of_mpirun) ||
	    !write_text(LAB_FOLDER "/agent", of_agent) ||
	    !write_text(LAB_FOLDER "/names", of_names))
		return failed("files in " LAB_FOLDER);
	mount(LAB_FOLDER "/names", "/etc/hosts", NULL, MS_BIND, NULL); /* may fail: use addresses */
	return NULL;
}

static char *make_switch(const struct lab *l, int first, int *socket_of_switch)
{
	pid_t *host AUTOFREE = must(calloc((size_t)l->hosts + 1, sizeof *host));
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    (!l->stays && mount("run", "/run", "tmpfs", 0, "mode=755") != 0) ||
	    mount("proc", "/proc", "proc", 0, NULL) != 0)
		return failed("its own mounts");
	if (folder_make(LAB_FOLDER) != 0)
		return failed("the folder " LAB_FOLDER);
	chmod(LAB_FOLDER, 0700); /* commands sent to its sockets run as the user who made it */
	TRY(write_lists(l));
	*socket_of_switch = lab_listen(LAB_SWITCH);
	if (*socket_of_switch < 0)
		return failed("a socket in " LAB_FOLDER);
	TRY(begin_hosts(l, host, first));
	return lay_wires(l, host);
}

/* Does not return. The first process of the lab: the switch. said: gets a message, or "", with its
 * NUL. */
static void be_switch(const struct lab *l, int said, int first)
{
	int socket_of_switch = -1;
	char *path AUTOFREE = sentence("%s:/usr/sbin:/sbin", getenv("PATH") ? getenv("PATH") : "");
	setenv("PATH", path, 1); /* for iproute2; a user's PATH may lack these */
	char *wrong = make_switch(l, first, &socket_of_switch);
	write_all(said, wrong ? wrong : "", wrong ? strlen(wrong) + 1 : 1);
	close(said);
	if (wrong)
		_exit(EXIT_FAILED);
	close_standard_files();
	lab_serve(socket_of_switch);
}

/* Does not return. */
static void leave_host(const struct lab *l, int said, int first)
{
	setsid(); /* a terminal's Ctrl-C goes to the requester, which forwards it */
	if (!l->stays)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	char *wrong = enter_namespaces();
	if (wrong) {
		write_all(said, wrong, strlen(wrong) + 1);
		_exit(EXIT_FAILED);
	}
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_switch(l, said, first);
	}
	only_wait(child, said, first);
}

char *lab_build(const struct lab *l, pid_t *child, int *first)
{
	int said[2], pair[2];
	char *wrong = NULL;
	size_t room = 0;
	if (pipe2(said, O_CLOEXEC) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return failed("a pipe and a socket");
	fflush(NULL);
	*child = fork();
	if (*child == 0) {
		close(said[0]);
		close(pair[0]);
		leave_host(l, said[1], pair[1]);
	}
	close(said[1]);
	close(pair[1]);
	*first = pair[0];
	FILE *f = must(fdopen(said[0], "r"));
	if (getdelim(&wrong, &room, '\0', f) <= 0) {
		free(wrong);
		wrong = sentence("the lab ended while it was built");
	}
	fclose(f);
	if (*wrong)
		return wrong;
	free(wrong);
	return NULL;
}
