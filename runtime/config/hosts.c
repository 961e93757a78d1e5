/*
 * hosts.c - the machines of --hostfile, and the host of each rank.
 *
 * Workers fill the slots of the first host, then those of the next. Hosts without slots share the
 * rest evenly. Servers go to the hosts in turn, one each: a host's workers then have a server next
 * to them, and all wires carry the same load.
 */
#include "runtime/config/clusters.h"
#include "runtime/config/config.h"
#include "runtime/config/hosts.h"

#include <stdlib.h>
#include <string.h>

void host_list_fini(struct host_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->host[i].name);
	free(l->host);
	*l = (struct host_list){.n = 0};
}

/* "name", "name slots=2 max_slots=4"; # begins a comment. */
static void read_line(struct host_list *l, char *line)
{
	line[strcspn(line, "#\n")] = '\0';
	char *rest = NULL, *name = strtok_r(line, " \t\r", &rest), *word;
	int slots = -1;
	if (!name)
		return;
	while ((word = strtok_r(NULL, " \t\r", &rest)))
		if (sscanf(word, "slots=%d", &slots) != 1)
			sscanf(word, "cpu=%d", &slots);
	slots = slots < -1 ? -1 : slots;
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->host[i].name, name) == 0) { /* each line adds its slots, or 1 */
			l->host[i].slots = abs(l->host[i].slots) + abs(slots);
			return;
		}
	APPEND(l->host, l->n, (struct host){.name = must(strdup(name)), .slots = slots});
}

char *host_list_read(const char *path, struct host_list *l)
{
	*l = (struct host_list){.n = 0};
	char *text AUTOFREE = text_read(path), *rest = NULL;
	if (!text)
		return sentence("--hostfile=%s: the file cannot be read (%m): give one with one "
				"machine a line",
				path);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		read_line(l, line);
	return l->n ? NULL : sentence("--hostfile=%s: it names no machine; give one a line", path);
}

/* Is there no rank before this one on its host? */
static bool is_first(const int *number, int64_t rank)
{
	int64_t other = 0;
	while (number[other] != number[rank])
		other++;
	return other == rank;
}

/* Servers go in turn to the hosts that have workers. */
static void deal_servers(int64_t workers, int64_t servers, int *number)
{
	int64_t worker = 0;
	for (int64_t s = 0; s < servers; s++) {
		number[workers + s] = number[worker];
		do /* to the first worker of the next host */
			worker = (worker + 1) % workers;
		while (!is_first(number, worker));
	}
}

static char *deal_by_slots(const struct host_list *l, int64_t workers, int *number)
{
	int64_t open = 0, slots = 0, rank = 0; /* open: hosts without slots */
	for (size_t i = 0; i < l->n; i++) {
		slots += l->host[i].slots < 0 ? 0 : l->host[i].slots;
		open += l->host[i].slots < 0;
	}
	if (slots < workers && open == 0)
		return sentence("--workers=%lld: slots of the hostfile: %lld; give fewer workers, "
				"or more slots",
				(long long)workers, (long long)slots);
	int64_t left = workers > slots ? workers - slots : 0;
	for (size_t i = 0; i < l->n; i++) {
		int64_t mine = l->host[i].slots;
		if (mine < 0) {
			mine = (left + open - 1) / open;
			left -= mine;
			open--;
		}
		for (int64_t k = 0; k < mine && rank < workers; k++)
			number[rank++] = (int)i;
	}
	return NULL;
}

/* "2@0,2@1+1@0": RANKS@HOST of the workers, then of the servers, which may be missing. */
static char *deal_by_placement(const struct host_list *l, const char *text, int64_t workers,
			       int64_t servers, int *number)
{
	int64_t rank = 0, ranks = workers + servers;
	int64_t plus = -1; /* the first rank after the +; -1: no + */
	for (const char *at = text; *at;) {
		int n = 0, host = -1, used = 0;
		if (*at < '0' || *at > '9' || sscanf(at, "%6d@%6d%n", &n, &host, &used) != 2 ||
		    n < 1 || host < 0)
			return sentence("--placement=%s: \"%s\" is not RANKS@HOST, as in 2@0,2@1",
					text, at);
		if ((size_t)host >= l->n)
			return sentence("--placement=%s: there is no machine %d; there are %zu, "
					"from 0",
					text, host, l->n);
		for (int k = 0; k < n; k++, rank++)
			if (rank < ranks)
				number[rank] = host;
		at += used + strspn(at + used, ", ");
		if (*at == '+' && plus < 0) {
			plus = rank;
			at += 1 + strspn(at + 1, ", ");
		}
	}
	int64_t told = plus < 0 ? rank : plus;
	if (told != workers || (plus >= 0 && rank != ranks))
		return sentence("--placement=%s: it has to place %lld worker%s%s%s", text,
				(long long)workers, workers == 1 ? "" : "s",
				servers ? ", and the servers after a +" : "",
				plus < 0 || servers ? "" : ", and there are no servers");
	return NULL;
}

char *host_list_deal(const struct host_list *l, const struct config *c, int *number)
{
	int64_t workers = c->run.workers, servers = c->run.servers;
	const char *told = c->harness.placement;
	char *wrong =
		*told ? deal_by_placement(l, told, workers, strchr(told, '+') ? servers : 0, number)
		      : deal_by_slots(l, workers, number);
	if (!wrong && !strchr(told, '+'))
		deal_servers(workers, servers, number);
	return wrong;
}

static void put_groups(FILE *f, const int *number, int n)
{
	for (int first = 0, end = 0; first < n; first = end) {
		while (end < n && number[end] == number[first])
			end++;
		fprintf(f, "%s%d@%d", first ? "," : "", end - first, number[first]);
	}
}

char *placement_text(const int *number, int workers, int servers)
{
	struct text t;
	FILE *f = text_open(&t);
	bool several = hosts_with_workers(number, workers + servers) > 1;
	if (several)
		put_groups(f, number, workers);
	if (several && servers) {
		fputc('+', f);
		put_groups(f, number + workers, servers);
	}
	return text_close(&t);
}

char *config_hosts(const struct config *c, int *number)
{
	struct host_list l;
	char *wrong = host_list_read(c->harness.hostfile, &l);
	if (!wrong)
		wrong = host_list_deal(&l, c, number);
	host_list_fini(&l);
	return wrong;
}

int hosts_with_workers(const int *number, int workers)
{
	int hosts = 0;
	for (int r = 0; r < workers; r++)
		hosts += is_first(number, r);
	return hosts;
}

/* ---- The rate of a wire ------------------------------------------------------- */

static const struct {
	const char *name;
	double bits;
} rates[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};

double bit_rate(const char *text)
{
	char *unit;
	double number = strtod(text, &unit);
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
		if (unit != text && number > 0 && strcmp(unit, rates[i].name) == 0)
			return number * rates[i].bits;
	return 0;
}

char *bit_rate_check(const struct option *o, const char *text)
{
	double rate = bit_rate(text);
	if (strcmp(text, "none") == 0 || (rate >= 1e5 && rate <= 1e11))
		return NULL;
	return sentence("--%s=%s: give a rate from 100kbit to 100gbit, such as 100mbit, or "
			"none",
			o->name, text);
}
