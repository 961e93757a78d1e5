/*
 * bigdb.c - makes a large results database: bigdb FILE [RUNS [EPOCHS]]; by default 10,000 runs of
 * 100 epochs. The rows are those that real runs store, with invented figures. There are three
 * workloads. Of ten configurations, one has one worker, five have two that wait for each other
 * (allreduce, periodic), and four have two and a parameter server (asgd), with the histogram of
 * their staleness. Learning rates, batches and momenta differ; each has five seeds. One run of
 * fifty diverged, one of a hundred failed. Equal arguments give equal rows, except for the times
 * when they are made.
 */
#include "results/db/db.h"
#include "runtime/config/config.h"
#include "runtime/config/machine.h"
#include "runtime/config/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS = 5 };

static uint64_t state = 1;

/* Uniform in [0, 1). */
static double uniform(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 11) * 0x1p-53;
}

/* Normal, with a standard deviation of 1. */
static double normal(void)
{
	double r = sqrt(-2 * log(1 - uniform()));
	return r * cos(6.283185307179586 * uniform());
}

static void fine(char *wrong)
{
	if (wrong) {
		complain(wrong);
		exit(EXIT_FAILED);
	}
}

struct inserts {
	sqlite3 *db;
	sqlite3_stmt *epoch, *rank, *staleness;
};

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *q = NULL;
	CHECK(sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK, "%s: %s", sql,
	      sqlite3_errmsg(db));
	return q;
}

/* Inserts a row: whole numbers that name it, reals (NaN = NULL), then counts. */
static void insert(sqlite3_stmt *q, const int64_t *key, int keys, const double *x, int n,
		   const int64_t *count, int counts)
{
	int at = 1;
	for (int i = 0; i < keys; i++)
		sqlite3_bind_int64(q, at++, key[i]);
	for (int i = 0; i < n; i++, at++) /* SQLite makes NaN NULL */
		sqlite3_bind_double(q, at, x[i]);
	for (int i = 0; i < counts; i++, at++)
		if (count[i] < 0)
			sqlite3_bind_null(q, at);
		else
			sqlite3_bind_int64(q, at, count[i]);
	CHECK(sqlite3_step(q) == SQLITE_DONE, "%s", sqlite3_errmsg(sqlite3_db_handle(q)));
	sqlite3_reset(q);
}

/* Properties of a run. */
struct kind {
	int64_t id, epochs, workers, steps;
	bool pushes;
	double best, speed, seconds; /* final accuracy; epochs until it is near; of an epoch */
};

/* Times are measured in whole nanoseconds. */
static double ns(double s)
{
	return round(1e9 * s) * 1e-9;
}

static void one_epoch(const struct inserts *in, const struct kind *k, int64_t epoch)
{
	double left = exp(-(double)epoch / k->speed), loss = 2.3 * left + 0.4 * (1 - k->best);
	double accuracy = k->best - (k->best - 0.1) * left + 0.002 * normal();
	double slow = ns(epoch ? k->seconds * exp(0.05 * normal()) : 0), sum[4] = {0};
	int64_t histogram[8] = {0}, bytes = epoch && k->workers > 1 ? 814160 * k->steps : 0;
	int64_t pushes = epoch && k->pushes ? k->steps * k->workers : 0, met = 0, most = 0;
	double rank[8][4];
	for (int64_t i = 0; i < k->workers; i++) {
		rank[i][0] = ns(slow * (1 - 0.001 * uniform()));
		rank[i][1] = ns(rank[i][0] * (k->workers > 1 ? 0.6 + 0.1 * uniform() : 0.999));
		rank[i][2] = k->workers > 1 ? ns(rank[i][0] * (0.1 + 0.1 * uniform())) : 0;
		rank[i][3] = k->workers > 1 ? ns(rank[i][0] * 0.2 * uniform()) : 0;
		for (int j = 0; j < 4; j++)
			sum[j] += rank[i][j] / (double)k->workers;
	}
	for (int64_t i = 0; i < pushes; i++) {
		int64_t s = (int64_t)(-0.8 * log(1 - uniform()) + 0.4);
		s = s < 8 ? s : 7;
		histogram[s]++;
		met += s;
		most = s > most ? s : most;
	}
	const double x[] = {sum[0],
			    sum[1],
			    sum[2],
			    sum[3],
			    epoch ? loss * (1 + 0.01 * normal()) : NAN,
			    epoch ? round(6e4 * (accuracy + 0.01)) / 6e4 : NAN,
			    loss,
			    round(5e3 * (accuracy + 0.01)) / 5e3,
			    loss * (1.05 + 0.01 * normal()),
			    round(1e4 * accuracy) / 1e4,
			    (double)bytes,
			    pushes ? (double)met / (double)pushes : NAN};
	const int64_t key[] = {k->id, epoch};
	const int64_t none[] = {-1, -1, -1}, counted[] = {most, pushes, 0};
	insert(in->epoch, key, 2, x, 12, pushes ? counted : none, 3);
	for (int64_t i = 0; i < k->workers; i++) {
		const int64_t of[] = {k->id, epoch, i}, half[] = {most, pushes / k->workers, 0};
		const double y[] = {rank[i][0],
				    rank[i][1],
				    rank[i][2],
				    rank[i][3],
				    (double)(bytes / k->workers),
				    pushes ? (double)met / (double)pushes * (0.9 + 0.2 * uniform())
					   : NAN};
		insert(in->rank, of, 3, y, 6, pushes ? half : none, 3);
	}
	for (int64_t s = 0; s < 8; s++) {
		const int64_t of[] = {k->id, epoch, s, histogram[s]};
		if (histogram[s] > 0)
			insert(in->staleness, of, 4, NULL, 0, NULL, 0);
	}
}

/* The n-th run's configuration: a mixed-radix number, seeds first. */
static struct config configuration(int64_t n, int64_t epochs, struct kind *k)
{
	static const struct {
		const char *strategy, *workers, *sync_every;
	} kinds[] = {{"serial", "1", "1"},   {"allreduce", "2", "1"}, {"periodic", "2", "2"},
		     {"periodic", "2", "4"}, {"periodic", "2", "8"},  {"periodic", "2", "16"},
		     {"asgd", "2", "1"},     {"asgd", "2", "2"},      {"asgd", "2", "4"},
		     {"asgd", "2", "8"}};
	static const char *const names[] = {"mlp", "softmax", "tanh_mlp"},
				 *const rates[] = {"0.1", "0.05", "0.02", "0.01"},
				 *const batches[] = {"32", "64", "128", "256"},
				 *const momenta[] = {"0", "0.9", "0.5", "0.95", "0.99", "0.8"};
	int64_t seed = n % SEEDS, kind = n / SEEDS % 10, name = n / (SEEDS * 10) % 3;
	int64_t more = n / (SEEDS * 30), rate = more % 4, batch = more / 4 % 4,
		momentum = more / 16;
	char seeds[24], epoch[24], label[40];
	CHECK(momentum < 6, "too many runs for distinct configurations: at most %d",
	      SEEDS * 30 * 96);
	snprintf(seeds, sizeof seeds, "%lld", (long long)seed + 1);
	snprintf(epoch, sizeof epoch, "%lld", (long long)epochs);
	snprintf(label, sizeof label, "sweep %lld", (long long)more);
	const struct setting given[] = {{"workload", names[name]},
					{"strategy", kinds[kind].strategy},
					{"workers", kinds[kind].workers},
					{"sync-every", kinds[kind].sync_every},
					{"lr", rates[rate]},
					{"batch", batches[batch]},
					{"momentum", momenta[momentum]},
					{"seed", seeds},
					{"epochs", epoch},
					{"label", label},
					{"target-accuracy", "0.85"}};
	struct config c;
	fine(config_init(&c, given, sizeof given / sizeof *given, false));
	k->epochs = epochs;
	k->workers = c.run.workers;
	k->steps = 60000 / c.run.batch / c.run.workers;
	k->pushes = strcmp(kinds[kind].strategy, "asgd") == 0;
	k->best = 0.9 - 0.02 * (double)name - 0.003 * (double)(kind % 5) - 0.01 * (double)rate +
		  0.002 * normal();
	k->speed = 3 + (double)kind + (double)rate + uniform();
	k->seconds = (0.2 + 0.1 * (double)kind) / (1 + 0.3 * (double)batch) * exp(0.03 * normal());
	return c;
}

static void one_run(struct store *s, struct inserts *in, int64_t n, int64_t epochs)
{
	struct kind k = {.id = 0};
	struct config c AUTOCONFIG = configuration(n, epochs, &k);
	struct plan plan = {.params = 101770, .device = "cpu"};
	const struct experiment e = {.config = &c,
				     .machine = machine(),
				     .plan = &plan,
				     .started = "2026-01-02T03:04:05Z",
				     .table_home = k.pushes ? "shared" : NULL};
	struct sink sink = store_sink(s);
	struct closing closing = {.cost = world_cost()};
	const char *status = n % 50 == 49 ? "diverged" : n % 100 == 74 ? "failed" : "done";
	plan.train.n = 60000;
	plan.test.n = 10000;
	fine(sink.begin(sink.self, &e, &k.id));
	CHECK(sqlite3_exec(in->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK, "BEGIN");
	if (strcmp(status, "done") != 0)
		k.epochs = epochs / 3;
	for (int64_t epoch = 0; epoch <= k.epochs; epoch++)
		one_epoch(in, &k, epoch);
	CHECK(sqlite3_exec(in->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK, "COMMIT");
	snprintf(closing.model_hash, sizeof closing.model_hash, "%016llx",
		 (unsigned long long)(n * 0x9E3779B97F4A7C15u));
	fine(sink.end(sink.self, status, strcmp(status, "done") ? "invented" : NULL, &closing));
}

int main(int argc, char **argv)
{
	const int64_t runs = argc > 2 ? atoll(argv[2]) : 10000,
		      epochs = argc > 3 ? atoll(argv[3]) : 100;
	struct store *s;
	if (argc < 2 || runs < 1 || epochs < 1) {
		fprintf(stderr, "usage: bigdb FILE [RUNS [EPOCHS]]\n");
		return EXIT_USER;
	}
	if (access(argv[1], F_OK) == 0) {
		fprintf(stderr, "bigdb: %s is there already\n", argv[1]);
		return EXIT_USER;
	}
	fine(store_open(&s, argv[1], STORE_WRITE));
	sqlite3_exec(s->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	struct inserts in = {
		.db = s->db,
		.epoch = prepare(s->db,
				 "INSERT INTO epoch VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
				 "?9, ?10, NULL, NULL, ?11, ?12, ?13, ?14, ?15, ?16, ?17, NULL, "
				 "NULL, NULL, NULL, NULL, NULL, 1, NULL)"),
		.rank = prepare(s->db, "INSERT INTO rank_epoch (run_id, epoch, rank, seconds, "
				       "compute_s, comm_s, wait_s, bytes_sent, staleness_mean, "
				       "staleness_max, pushes, dropped) VALUES (?1, ?2, ?3, ?4, "
				       "?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"),
		.staleness = prepare(s->db, "INSERT INTO staleness VALUES (?1, ?2, ?3, ?4)"),
	};
	for (int64_t n = 0; n < runs; n++)
		one_run(s, &in, n, epochs);
	sqlite3_finalize(in.epoch);
	sqlite3_finalize(in.rank);
	sqlite3_finalize(in.staleness);
	store_close(s);
	return EXIT_OK;
}
