/*
 * lab.c - mvbench lab: a cluster of virtual hosts on this machine, for real runs over real TCP.
 */
#include "results/run/run.h"
#include "runtime/cli/cli.h"
#include "runtime/config/clusters.h"
#include "runtime/config/hosts.h"
#include "runtime/launch/lab.h"
#include "runtime/watch/watch.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct lab_flags {
	const char *rate;
	double clock_offset;
	bool probe;
};

#define OWNER struct lab_flags
static const struct option lab_options[] = {
	OPTION(rate, STRING, "rate", "none",
	       "with run and up: rate of each wire in each direction, such as 100mbit or 1gbit; "
	       "none: unlimited [rate]",
	       .check = bit_rate_check),
	OPTION(clock_offset, TIME, "clock-offset", "1000s",
	       "with run and up: host k's monotonic clock is k times this ahead of this machine's "
	       "[time]",
	       .max = 1e6),
	OPTION(probe, BOOL, "probe", "true",
	       "with run and up: measure before use whether a wire reaches its rate"),
	{0},
};

/* A full packet carries 1448 bytes of payload in 1514 bytes. */
static double limit_s(const char *rate)
{
	double bits = bit_rate(rate);
	return bits > 0 ? PROBE_BYTES * 8.0 * 1514 / 1448 / bits : 0;
}

/* ---- The wire ------------------------------------------------------------ */

static void say_wire(const struct lab_wire *w, const char *host, const char *rate)
{
	double limit = limit_s(rate), most = fmax(w->one_way, w->both_ways) - w->round_trip;
	fprintf(stderr,
		"mvbench: lab: %d KB to %s take %.3g ms one way and %.3g ms both ways at once, a "
		"byte there and back %.2g ms",
		PROBE_BYTES / 1000, host, 1e3 * w->one_way, 1e3 * w->both_ways,
		1e3 * w->round_trip);
	if (limit > 0)
		fprintf(stderr, "; at %s they take %.3g ms%s", rate, 1e3 * limit,
			most > 1.05 * limit || most < 0.95 * limit
				? ": this machine does not reach that rate now"
				: "");
	fputc('\n', stderr);
}

/* The rate of the wire between this host and the other: that of the slower end. Heap. */
static char *rate_between(const char *host)
{
	char here[LAB_NAME] = "";
	gethostname(here, sizeof here - 1);
	char *one AUTOFREE = lab_rate_read(here), *other AUTOFREE = lab_rate_read(host);
	double a = bit_rate(one), b = bit_rate(other);
	return must(strdup(a > 0 && (a < b || b <= 0) ? one : other));
}

/* On a host: a child runs `lab answer` on the other host. */
static char *lab_probe_host(const char *host)
{
	struct lab_wire wire;
	char *self AUTOFREE = program_path();
	const char *const answer[] = {self, "lab", "answer", NULL};
	pid_t child = fork();
	if (child == 0) {
		int status = EXIT_FAILED;
		char *wrong = lab_exec(host, answer, &status);
		_exit(wrong ? complain(wrong) : status);
	}
	char *wrong = lab_probe(host, &wire);
	if (child > 0 && wrong) /* without an error it ends by itself */
		kill(child, SIGTERM);
	if (child > 0)
		waitpid(child, NULL, 0);
	char *rate AUTOFREE = rate_between(host);
	if (!wrong)
		say_wire(&wire, host, rate);
	return wrong;
}

/* ---- A lab --------------------------------------------------------------- */

static char *hosts_of(const char *text, struct lab *l)
{
	char *end;
	l->hosts = text ? strtoll(text, &end, 10) : 0;
	l->probed &= l->hosts > 1 && bit_rate(l->rate) > 0;
	if (!text || *end || l->hosts < 1 || l->hosts > LAB_HOSTS_MOST)
		return sentence("%s: give a number of hosts from 1 to %d, as in: mvbench lab "
				"run 4 -- mvbench run --strategy=allreduce --workers=4",
				text ? text : "lab", LAB_HOSTS_MOST);
	return NULL;
}

/* The connection to host 1 is the only way into the lab, because no process outside sees its files.
 * It takes one command; to probe first, this is a shell line of two commands. */
static char *lab_run(const struct lab_flags *f, const struct arguments *a, int *status)
{
	struct lab l = {.rate = f->rate, .offset = f->clock_offset, .probed = f->probe};
	int first;
	pid_t child;
	TRY(hosts_of(a->words > 1 ? a->word[1] : NULL, &l));
	if (a->words < 3)
		return sentence("lab run: give a command, as in: mvbench lab run %lld -- "
				"mvbench run --strategy=allreduce --workers=%lld",
				(long long)l.hosts, (long long)l.hosts);
	TRY(lab_build(&l, &child, &first));
	char *self AUTOFREE = program_path();
	const char *const before[] = {"sh", "-c", "\"$0\" lab probe lab2; exec \"$@\"", self};
	const char **words AUTOFREE = NULL;
	size_t n = 0;
	for (size_t i = 0; l.probed && i < sizeof before / sizeof *before; i++)
		APPEND(words, n, before[i]);
	for (size_t i = 2; i < a->words; i++)
		APPEND(words, n, a->word[i]);
	APPEND(words, n, NULL);
	char *wrong = lab_request(first, words, status);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return wrong;
}

char *lab_enter(int64_t hosts)
{
	const char *file = getenv(HOSTFILE_VARIABLE), **words = NULL;
	if (file && strcmp(file, LAB_FOLDER "/hosts") == 0)
		return NULL;
	char *self = program_path(), *count = sentence("%lld", (long long)hosts), *line = NULL;
	const char *const first[] = {self, "lab", "run", count, "--", self};
	size_t room = 0, n = 0;
	FILE *f = fopen("/proc/self/cmdline", "re");
	if (!f)
		return sentence("--lab: no /proc; start the lab yourself: mvbench lab run");
	for (size_t i = 0; i < sizeof first / sizeof *first; i++)
		APPEND(words, n, first[i]);
	for (int i = 0; getdelim(&line, &room, '\0', f) > 0; i++)
		if (i > 0)
			APPEND(words, n, must(strdup(line)));
	APPEND(words, n, NULL);
	execv(self, (char **)(uintptr_t)words);
	return sentence("%s: %s", self, strerror(errno));
}

static char *lab_up(const struct lab_flags *f, const struct arguments *a, int *status)
{
	struct lab l = {
		.rate = f->rate, .offset = f->clock_offset, .stays = true, .probed = f->probe};
	char *self AUTOFREE = program_path();
	const char *const nothing[] = {"true", NULL}, *const probing[] = {self, "lab", "probe",
									  "lab2", NULL};
	int first, unused;
	pid_t child;
	TRY(hosts_of(a->words > 1 ? a->word[1] : NULL, &l));
	if (geteuid() != 0)
		return sentence("lab up: this needs root; mvbench lab run does not");
	char *wrong = lab_exec(LAB_SWITCH, nothing, &unused);
	if (!wrong)
		return sentence("lab up: a lab is up already; end it with mvbench lab down");
	free(wrong);
	TRY(lab_build(&l, &child, &first));
	FILE *pid = fopen(LAB_FOLDER "/pid", "w");
	if (pid) {
		fprintf(pid, "%d\n", (int)child);
		fclose(pid);
	}
	return lab_request(first, l.probed ? probing : nothing, status);
}

enum { LOST = 255 };

/* ---- Commands on hosts and wires ----------------------------------------- */

static char *rate(const struct arguments *a, int *status)
{
	static const struct option o = {.name = "rate"};
	if (a->words < 2)
		return sentence("lab rate: give a rate, as in: mvbench lab rate 100mbit");
	TRY(bit_rate_check(&o, a->word[1]));
	return a->words > 2 ? lab_rate_set(a->word[1], a->word[2], status)
			    : lab_rates_set(a->word[1], false, status);
}

static char *rsh(const struct arguments *a, int *status)
{
	char *line AUTOFREE = text_list(a->word + 2, a->words - 2, " ");
	char *wrong = lab_at(a->word[1], line, status);
	*status = wrong ? LOST : *status; /* like ssh */
	return wrong;
}

static char *exec_there(const struct arguments *a, int *status)
{
	if (a->words < 3)
		return sentence("lab exec: give a command for %s, as in: mvbench lab exec %s -- "
				"hostname",
				a->word[1], a->word[1]);
	return lab_exec(a->word[1], a->word + 2, status);
}

/* Like a power failure. */
static char *turn_off(const char *host, int *status)
{
	char *line AUTOFREE =
		sentence("kill -KILL $(cat " LAB_FOLDER "/%s.pid) && rm -f " LAB_FOLDER "/%s.[!t]*",
			 host, host);
	return lab_at(LAB_SWITCH, line, status);
}

static char *take_down(int *status)
{
	char *text AUTOFREE = text_read(LAB_FOLDER "/pid");
	if (!text)
		return sentence("lab down: no lab is up");
	TRY(lab_at(LAB_SWITCH, "rm -rf " LAB_FOLDER, status));
	if (atoi(text) > 0)
		kill((pid_t)atoi(text), SIGKILL);
	return NULL;
}

/* NULL, or a message: is this host on? Outside a lab lab_exec reports the error. */
static char *check_host(const char *host)
{
	char *there AUTOFREE = sentence(LAB_FOLDER "/%s.socket", host);
	if (access(LAB_FOLDER, F_OK) != 0 || access(there, F_OK) == 0)
		return NULL;
	return sentence("%s: there is no such host in this lab, or it is off", host);
}

static bool wants_host(const char *verb)
{
	static const char *const verbs[] = {"exec", "rsh", "probe", "cut", "heal", "off"};
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (strcmp(verb, verbs[i]) == 0)
			return true;
	return false;
}

static char *lab(void *options, struct arguments *a, int *status)
{
	const struct lab_flags *f = options;
	unsetenv(STATUS_VARIABLE); /* set if mpirun runs `lab rsh`; this process is not a worker */
	const char *verb = a->words ? a->word[0] : "", *host = a->words > 1 ? a->word[1] : NULL;
	if (wants_host(verb) && !host)
		return sentence("lab %s: give a host, as in: mvbench lab %s lab2", verb, verb);
	if (strcmp(verb, "rate") == 0)
		host = a->words > 2 ? a->word[2] : NULL;
	if (host && (wants_host(verb) || strcmp(verb, "rate") == 0))
		TRY(check_host(host));
	if (strcmp(verb, "run") == 0)
		return lab_run(f, a, status);
	if (strcmp(verb, "up") == 0)
		return lab_up(f, a, status);
	if (strcmp(verb, "down") == 0)
		return take_down(status);
	if (strcmp(verb, "exec") == 0)
		return exec_there(a, status);
	if (strcmp(verb, "rsh") == 0)
		return rsh(a, status);
	if (strcmp(verb, "probe") == 0)
		return lab_probe_host(host);
	if (strcmp(verb, "answer") == 0)
		return lab_probe_answer();
	if (strcmp(verb, "rate") == 0)
		return rate(a, status);
	if (strcmp(verb, "cut") == 0 || strcmp(verb, "heal") == 0)
		return lab_wire_set(host, *verb == 'h', status);
	if (strcmp(verb, "off") == 0)
		return turn_off(host, status);
	return sentence("lab%s%s: give run, up, exec, probe, rate, cut, heal, off or down",
			*verb ? " " : "", verb);
}

const struct command command_lab = {
	.name = "lab",
	.summary = "run on virtual hosts of this machine, joined by wires of a given rate",
	.usage = "run|up|exec|probe|rate|cut|heal|off|down [N|HOST|RATE] [-- COMMAND ...]",
	.about =
		"Builds hosts on this machine, each with its own network, processes, name, clock "
		"and "
		"/dev/shm, joins them by wires of a given rate, and runs commands on them. mvbench "
		"run and mpirun, on any of them, use all of them; the hosts reach each other over "
		"TCP. They share this machine's files and its cores.\n\n"
		"run N -- COMMAND: builds lab1 to labN, runs the command on lab1, and ends the lab "
		"with the command and its exit status. It does not need root.\n\n"
		"up N: the same for root, until down. exec HOST -- COMMAND: runs a command on that "
		"host.\n\n"
		"In a lab: probe HOST measures the wire to that host; rate RATE [HOST] changes its "
		"rate; cut HOST drops all packets of the wire without an error, and heal HOST ends "
		"that; off HOST turns the host off.\n\n"
		"Shaping the wires also takes CPU time: 1 Gbit/s is faithful only with a core for "
		"each host.",
	.options = lab_options,
	.size = sizeof(OWNER),
	.run = lab,
};
