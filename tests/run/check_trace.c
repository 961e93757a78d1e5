/*
 * check_trace.c - timelines: events nest and are ordered, arrows have two ends, exports are JSON; a
 * timeline changes nothing of its run; and a planted straggler is blamed.
 */
#include "runtime/table/table.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <stdlib.h>
#include <string.h>

enum { OUTPUT = 16384 };

/* 2400 rows: 25 steps of two workers, 12 or 13 of four. */
#define SMALL "--workload=mlp --mlp.hidden=16 --epochs=2 --batch=48 --device=cpu "
#define SIM   "--platform=sim --sim.step-time=1ms --sim.update-time=100us "
#define FOUR  "--sim.platform=gpu4_pcie "

static void record(const char *how)
{
	record_run(words(SMALL "%s", how));
}

/* Runs the command on the folder's database. */
static int command(const char *name, const char *how, char out[OUTPUT])
{
	return command_output(words("./mvbench %s --db=%s/run.db %s 2>&1", name, folder, how), out,
			      OUTPUT);
}

static void expect_no_rows(const char *sql)
{
	char *all AUTOFREE = sentence("SELECT count(*) FROM (%s)", sql);
	expect_row(all, "0\r\n");
}

/* ---- Recording events ---------------------------------------------------- */

CASE("trace", .limit = 120, .set_up = trained_data, .tear_down = folder_free, .once = true);

TEST(events_are_nested_in_order)
{
	struct trace *t = trace_new(NULL, 0, 1, 100);
	struct link *alone = link_world(1);
	nsec zero = clock_now() - 1000000000;
	static const struct {
		enum trace_kind kind;
		nsec since, until;
		int parent;
	} slice[] = {{TRACE_STEP, 0, 100, -1}, {TRACE_COMPUTE, 0, 40, 0},
		     {TRACE_SEND, 10, 20, 1},  {TRACE_UPDATE, 40, 100, 0},
		     {TRACE_PUSH, 50, 90, 3},  {TRACE_APPLY, 50, 90, 4},
		     {TRACE_WAIT, 60, 70, 5},  {TRACE_STEP, 100, 150, -1}};
	/* inner events end before outer ones, and are recorded first */
	static const int order[] = {2, 1, 6, 5, 4, 3, 0, 7};
	trace_at(t, 3, 9);
	for (size_t i = 0; i < COUNT(slice); i++)
		trace_add(t, slice[order[i]].kind, zero + slice[order[i]].since,
			  zero + slice[order[i]].until);
	trace_settle(t, NULL);
	struct slices all = trace_gather(t, alone);
	ck_assert_uint_eq(all.n, COUNT(slice));
	for (size_t i = 0; i < all.n; i++) {
		ck_assert_int_eq(all.event[i].kind, slice[i].kind);
		ck_assert_int_eq(all.event[i].seq, (int)i);
		ck_assert_int_eq(all.event[i].parent, slice[i].parent);
		ck_assert_int_eq(all.event[i].epoch, 3);
		ck_assert_int_eq(all.event[i].step, 9);
		ck_assert_int_eq(all.event[i].start - all.event[0].start, slice[i].since);
	}
	free(all.event);
	/* numbers continue after a segment */
	trace_add(t, TRACE_STEP, zero, zero + 1);
	trace_settle(t, NULL);
	all = trace_gather(t, alone);
	ck_assert_uint_eq(all.n, 1);
	ck_assert_int_eq(all.event[0].seq, (int)COUNT(slice));
	free(all.event);
	trace_free(t);
	link_free(alone);
}

TEST(lost_events_are_counted)
{
	struct trace *t = trace_new(NULL, 0, 1, 3);
	struct link *alone = link_world(1);
	for (int i = 0; i < 8; i++)
		trace_add(t, TRACE_STEP, i, i + 1)->bytes = i;
	trace_settle(t, NULL);
	struct slices all = trace_gather(t, alone);
	ck_assert_uint_eq(all.n, 3);
	ck_assert_uint_eq(all.lost, 5);
	ck_assert_int_eq(all.event[2].bytes, 2);
	free(all.event);
	trace_free(t);
	link_free(alone);
}

/* The time that a sum takes longer than on the last worker to arrive is waiting. */
TEST(waits_within_sums_are_found)
{
	struct trace *t = trace_new(NULL, 0, 1, 10);
	struct link *alone = link_world(1);
	struct stats s;
	stats_init(&s, 2);
	s.joint_ops = s.compared = 2;
	s.joint_op[0] = (struct joint_op){.s = 50e-9f, .shortest_s = 20e-9f, .last = 3};
	s.joint_op[1] = (struct joint_op){.s = 10e-9f, .shortest_s = 10e-9f};
	trace_add(t, TRACE_ALLREDUCE, 100, 150)->joint_op = 0;
	trace_add(t, TRACE_ALLREDUCE, 200, 210)->joint_op = 1;
	trace_settle(t, &s);
	struct slices all = trace_gather(t, alone);
	ck_assert_uint_eq(all.n, 3);
	ck_assert_int_eq(all.event[1].kind, TRACE_WAIT);
	ck_assert_int_eq(all.event[1].parent, 0);
	ck_assert_int_eq(all.event[1].peer, 3);
	ck_assert_int_eq(all.event[1].start, all.event[0].start);
	ck_assert_int_ge(all.event[1].length, 29);
	ck_assert_int_le(all.event[1].length, 30);
	free(all.event);
	stats_fini(&s);
	trace_free(t);
	link_free(alone);
}

/* The enum has the order in which slices nest, and the view has the same order. */
TEST(event_kind_view_lists_every_kind)
{
	char *names AUTOFREE = text_list(trace_names, TRACE_KINDS_COUNT, " ");
	char *row AUTOFREE = sentence("%s\r\n", names);
	forget_runs();
	record("--epochs=1");
	expect_row(
		"SELECT group_concat(name, ' ') FROM (SELECT name FROM event_kind ORDER BY place)",
		row);
	expect_row(
		"SELECT count(DISTINCT colour) = count(*), min(length(about)) > 5 FROM event_kind",
		"1,1\r\n");
	expect_row("SELECT trace, events_lost IS NULL, (SELECT count(*) FROM event) FROM run",
		   "0,1,0\r\n");
}

/* ---- Recorded runs ----------------------------------------------------------------- */

static const struct {
	const char *how, *names; /* events of a worker that must be there */
	int arrows;              /* at least; -1: none */
} traced_runs[] = {
	{"--strategy=asgd --workers=2", "apply barrier compute evaluate push step update", 40},
	{"--strategy=allreduce --workers=2 --straggle=0.3",
	 "allreduce barrier compute delay step update wait", -1},
	{"--strategy=asgd --workers=2 --servers=2", "pack push recv send step", 90},
	{"--strategy=bsp --workers=2", "apply push step wait", 40},
	{"--strategy=asgd --workers=2 --table-home=onesided", "push step", 40},
	{"--strategy=gossip --workers=2 --barrier-every=0", "evaluate exchange step", -1},
	{"--strategy=serial --pause=0:1ms:2ms", "compute pause step", -1},
	{SIM FOUR "--strategy=asgd --workers=4", "apply barrier compute push step", 90},
	{SIM FOUR "--strategy=ssp --workers=4 --servers=1", "push recv send step", 90},
	{SIM FOUR "--strategy=allreduce --workers=3 --speed=1:0.5", "allreduce compute step", -1},
	{SIM FOUR "--strategy=asgd --workers=2 --sim.train=false", "apply compute push step", 40},
};

/* Slices of a rank never overlap partly, times do not decrease, and arrows go forward from a push
 * to another rank. Times are whole nanoseconds. */
static void expect_sound(void)
{
	expect_no_rows("SELECT * FROM event AS e JOIN event AS p ON p.rank = e.rank AND p.seq = "
		       "e.parent WHERE p.seq >= e.seq OR round(1e9 * e.start_s) < round(1e9 * "
		       "p.start_s) OR round(1e9 * (e.start_s + e.duration_s)) > "
		       "round(1e9 * (p.start_s + p.duration_s))");
	expect_no_rows("SELECT * FROM (SELECT start_s AS s, lag(start_s + duration_s) OVER "
		       "(PARTITION BY rank, parent ORDER BY seq) AS before FROM event) "
		       "WHERE round(1e9 * s) < round(1e9 * before)");
	expect_no_rows("SELECT * FROM (SELECT start_s AS s, lag(start_s) OVER "
		       "(PARTITION BY rank ORDER BY seq) AS before FROM event) WHERE s < before");
	expect_no_rows("SELECT * FROM event WHERE duration_s < 0 OR start_s < 0");
	expect_no_rows("SELECT * FROM event_arrow AS a JOIN event AS f ON f.rank = from_rank AND "
		       "f.seq = from_seq JOIN event AS t ON t.rank = to_rank AND t.seq = to_seq "
		       "WHERE to_s < from_s OR from_rank = to_rank OR f.name <> 'push' OR "
		       "from_s < f.start_s OR to_s < t.start_s OR "
		       "to_s > t.start_s + t.duration_s + 1e-9");
}

TEST(timeline_is_consistent, COUNT(traced_runs))
{
	char *list AUTOFREE = must(strdup(traced_runs[_i].names));
	forget_runs();
	record(words("--trace=15 --deal=auto %s", traced_runs[_i].how));
	expect_sound();
	forget_runs();
	record(words("--trace=15 --deal=static %s", traced_runs[_i].how));
	expect_sound();
	for (char *name = strtok(list, " "); name; name = strtok(NULL, " "))
		expect_row(
			words("SELECT name, count(DISTINCT rank) = (SELECT workers FROM run) "
			      "FROM event WHERE name = '%s' AND rank < (SELECT workers FROM run)",
			      name),
			words("%s,1\r\n", name));
	/* every requested step of every epoch and worker, and no other step */
	expect_row(
		"SELECT count(*) = 2 * workers * min(15, (2399 + 48 * workers) / (48 * workers)), "
		"max(step) <= 15, events_lost FROM event JOIN run WHERE name = 'step'",
		"1,1,0\r\n");
	expect_row(words("SELECT CASE WHEN %d < 0 THEN count(*) = 0 ELSE count(*) >= %d END "
			 "FROM event_arrow",
			 traced_runs[_i].arrows, traced_runs[_i].arrows),
		   "1\r\n");
	/* a server applied what was pushed to it, of the same step */
	expect_no_rows("SELECT * FROM event AS a JOIN run AS r WHERE a.rank >= r.workers AND "
		       "a.name = 'apply' AND NOT EXISTS (SELECT 1 FROM event AS p WHERE p.flow = "
		       "a.flow AND p.rank = a.peer AND p.step = a.step AND p.epoch = a.epoch AND "
		       "p.name = 'push')");
}

/* Virtual times (which are rounded to nanoseconds, and --straggle multiplies), counts and losses
 * equal those of the same run without a timeline. */
TEST(timeline_does_not_change_a_simulation, 3)
{
	static const char *const how[] = {"--strategy=asgd --workers=4",
					  "--strategy=bsp --workers=3 --servers=1 --speed=2:0.5",
					  "--strategy=allreduce --workers=4 --straggle=0.5"};
	forget_runs();
	record(words(SIM FOUR "%s", how[_i]));
	record(words(SIM FOUR "%s --trace=10", how[_i]));
	expect_row("SELECT count(*), sum(abs(a.seconds - b.seconds) > 1e-7), "
		   "sum(a.test_loss IS NOT b.test_loss), sum(a.staleness_mean IS NOT "
		   "b.staleness_mean) FROM epoch AS a JOIN epoch AS b USING (epoch) "
		   "WHERE a.run_id = 1 AND b.run_id = 2",
		   "3,0,0,0\r\n");
	expect_row("SELECT count(DISTINCT config_hash), count(DISTINCT model_hash) FROM run",
		   "1,1\r\n");
}

TEST(timeline_allocates_nothing_in_segments, 3)
{
	static const char *const how[] = {"--strategy=asgd", "--strategy=allreduce --straggle=0.1",
					  "--strategy=bsp --barrier-every=0"};
	train_ok(2, words("--workload=mlp --mlp.hidden=16 --epochs=2 --batch=48 "
			  "--device=cpu --trace=20 %s",
			  how[_i]));
}

/* ---- Exported ---------------------------------------------------------------------- */

/* What a query on the events of the folder's t.json gives. */
static void expect_json(const char *sql, const char *want)
{
	char out[OUTPUT];
	char *text AUTOFREE =
		sentence("sqlite3 -csv :memory: \"WITH file AS (SELECT CAST(readfile('%s/t.json') "
			 "AS TEXT) AS text), e AS (SELECT value AS j, value ->> 'ph' AS ph, "
			 "value ->> 'tid' AS tid, value ->> 'ts' AS ts, value ->> 'dur' AS dur, "
			 "value ->> 'id' AS id FROM json_each((SELECT text FROM file), "
			 "'\\$.traceEvents')) %s\" 2>&1",
			 folder, sql);
	command_output(text, out, sizeof out);
	ck_assert_msg(strcmp(out, want) == 0, "%s\n%s, wanted %s", sql, out, want);
}

TEST(timeline_is_exported_as_json)
{
	char out[OUTPUT];
	forget_runs();
	record("--trace=12 --strategy=asgd --deal=static --workers=2 --servers=1 "
	       "--label='a\"b\\c,<script>'");
	int status = command("trace 1", words("--out=%s/t.json", folder), out);
	ck_assert_msg(status == EXIT_OK, "%s", out);
	expect_json("SELECT json_valid(text), json_type(text), (SELECT count(*) > 200 FROM e) FROM "
		    "file",
		    "1,object,1\n");
	expect_json("SELECT group_concat(j ->> '\\$.args.name', ';') FROM e WHERE ph = 'M' AND "
		    "j ->> 'name' = 'thread_name'",
		    "\"worker 0;worker 1;server 0\"\n");
	expect_json("SELECT instr(j ->> '\\$.args.name', '<script>') > 0 FROM e WHERE "
		    "j ->> 'name' = 'process_name'",
		    "1\n");
	expect_json(
		"SELECT count(*) > 40, sum(ends <> 2 OR starts <> 1 OR first > last) FROM (SELECT "
		"count(*) AS ends, sum(ph = 's') AS starts, max(ts) FILTER (WHERE ph = 's') AS "
		"first, max(ts) FILTER (WHERE ph = 'f') AS last FROM e WHERE ph IN ('s', 'f') "
		"GROUP BY id)",
		"1,0\n");
	/* each end lies in a slice */
	expect_json(
		"SELECT count(*) FROM e AS a WHERE ph IN ('s', 'f') AND NOT EXISTS (SELECT 1 FROM "
		"e AS x WHERE x.ph = 'X' AND x.tid = a.tid AND a.ts BETWEEN x.ts AND "
		"x.ts + x.dur + 0.001)",
		"0\n");
	expect_json(
		"SELECT count(*) FROM (SELECT ts, lag(ts) OVER (PARTITION BY ph, tid) AS before "
		"FROM e WHERE ph IN ('X', 'C')) WHERE ts < before",
		"0\n");
	command_output(words("sqlite3 %s/run.db \"UPDATE run SET label = CAST(x'61ff62' AS TEXT)\"",
			     folder),
		       out, sizeof out);
	command("trace latest", words("--steps=3..4 --epoch=2 --out=%s/t.json", folder), out);
	expect_json("SELECT instr(text, 'a' || char(65533) || 'b') > 0, instr(CAST(text AS BLOB), "
		    "x'ff') FROM file",
		    "1,0\n");
	expect_json("SELECT min(j ->> '\\$.args.step'), max(j ->> '\\$.args.step'), "
		    "min(j ->> '\\$.args.epoch'), sum(j ->> 'name' = 'step') FROM e WHERE ph = 'X'",
		    "3,4,2,4\n");
}

TEST(trace_starts_the_given_run)
{
	char out[OUTPUT];
	forget_runs();
	int status = command("trace",
			     words("--data-dir=%s --out=%s/t.json " SMALL
				   "--strategy=allreduce --workers=2",
				   folder, folder),
			     out);
	ck_assert_msg(status == EXIT_OK && strstr(out, "events of 2 ranks of run 1"), "%s", out);
	expect_row("SELECT trace, status FROM run", "64,done\r\n");
	expect_json("SELECT count(*) FROM e WHERE ph = 'X' AND j ->> 'name' = 'step'", "100\n");
}

static const struct {
	const char *name, *how, *says;
} mistakes[] = {
	{"trace", "", "name a run"},
	{"trace 99", "", "has no such run"},
	{"trace zwei", "", "give the number of a run"},
	{"trace 1 2", "", "one run at a time"},
	{"trace 1", "", "run 1 has no timeline"},
	{"trace latest", "", "with a timeline"},
	{"trace 2", "--steps=5..2", "--steps=5..2: "},
	{"trace 2", "--steps=0", "--steps=0: "},
	{"trace 2", "--steps=many", "--steps=many: "},
	{"trace 1", "--workers=2", "run 1 is recorded already"},
	{"trace 1", "--sterps=2", "--sterps"},
	{"trace latest", "--label=no\\'such", "there is no such label"},
	{"blame latest", "--label=\\'", "there is no such label"},
	{"trace", "--trace=0 --workers=1", "--trace=0"},
	{"trace", "--strategy=asgdd", "asgd?"},
	{"blame 99", "", "has no such run"},
	{"blame latest", "--where='no such'", "--where=no such"},
	{"blame 1", "--format=xml", "--format=xml"},
};

TEST(trace_mistakes_are_refused)
{
	char out[OUTPUT];
	forget_runs();
	record("--epochs=1");
	for (size_t i = 0; i < COUNT(mistakes); i++) {
		int status = command(mistakes[i].name, mistakes[i].how, out);
		ck_assert_msg(status == EXIT_USER && strstr(out, mistakes[i].says),
			      "%s %s: status %d, wanted \"%s\":\n%s", mistakes[i].name,
			      mistakes[i].how, status, mistakes[i].says, out);
	}
}

/* ---- Blame --------------------------------------------------------------------------- */

/* A hundredth of the speed: the load of the machine slows the other worker far less. */
#define BIG "--mlp.hidden=64 "
static const struct {
	const char *how;
	int slowest;
	const char *source;
	bool all; /* nearly all waiting is for it: in virtual time, except pairs and groups */
} planted[] = {
	{BIG "--strategy=allreduce --workers=2 --speed=1:0.01", 1, "epochs", false},
	{BIG "--strategy=allreduce --workers=2 --speed=0:0.01 --trace=25", 0, "events", false},
	{BIG "--strategy=asgd --deal=static --workers=2 --speed=1:0.01", 1, "epochs", false},
	{BIG "--strategy=asgd --deal=static --workers=2 --speed=0:0.01 --trace=25", 0, "events",
	 false},
	{BIG "--strategy=bsp --workers=2 --speed=1:0.01 --trace=25", 1, "events", false},
	{BIG "--strategy=ssp --workers=2 --speed=0:0.01 --trace=25", 0, "events", false},
	{BIG "--strategy=bsp --workers=2 --servers=1 --speed=1:0.01 --trace=25", 1, "events",
	 false},
	{SIM FOUR "--strategy=allreduce --workers=4 --speed=2:0.5", 2, "epochs", true},
	{SIM FOUR "--strategy=allreduce --workers=4 --speed=2:0.5 --trace=5", 2, "events", true},
	{SIM FOUR "--strategy=bsp --workers=4 --speed=3:0.5 --trace=5", 3, "events", true},
	{SIM FOUR "--strategy=ssp --ssp.bound=1 --workers=4 --servers=1 --speed=1:0.5 --trace=5", 1,
	 "events", true},
	{SIM FOUR "--strategy=asgd --deal=static --workers=4 --speed=1:0.5 --trace=5", 1, "events",
	 true},
	{SIM FOUR "--strategy=gossip --workers=4 --speed=3:0.5", 3, "epochs", false},
	{SIM FOUR "--strategy=gossip --workers=4 --speed=3:0.5 --trace=5", 3, "events", false},
	{SIM FOUR "--strategy=hybrid --workers=4 --speed=2:0.5 --trace=5", 2, "events", false},
};

TEST(planted_straggler_is_blamed, COUNT(planted))
{
	char out[OUTPUT];
	int slowest = planted[_i].slowest;
	forget_runs();
	record(planted[_i].how);
	int status = command("blame", "--format=json", out);
	ck_assert_msg(status == EXIT_OK && strstr(out, words("\"slowest\":%d,", slowest)) &&
			      strstr(out, words("\"source\":\"%s\"", planted[_i].source)),
		      "%s: %s", planted[_i].how, out);
	command("blame", "", out);
	ck_assert_msg(strstr(out, words("worker %d is the slowest", slowest)), "%s", out);
	if (!planted[_i].all)
		return;
	expect_row(
		words("SELECT sum(waited_s) > 0.8 * (SELECT sum(waited_s) FROM blame_epoch) FROM "
		      "blame_epoch WHERE rank = %d",
		      slowest),
		"1\r\n");
}

/* In virtual time it is known: three workers wait a millisecond a step, of 13 steps in two
 * epochs. */
TEST(blamed_seconds_are_exact)
{
	forget_runs();
	record(SIM FOUR "--strategy=allreduce --workers=4 --speed=2:0.5");
	record(SIM FOUR "--strategy=allreduce --workers=4 --speed=2:0.5 --trace=5");
	expect_row("SELECT sum(ok) FROM (SELECT abs(sum(waited_s) - 0.075) < 0.003 AS ok FROM "
		   "blame_epoch WHERE rank = 2 GROUP BY run_id)",
		   "2\r\n");
	expect_row("SELECT n, round(median_s, 3), round(p99_s, 3) FROM step_time WHERE rank = 0",
		   "10,0.002,0.002\r\n");
	expect_row(
		"SELECT round(share, 1) FROM time_share WHERE run_id = 2 AND rank = 0 AND name = "
		"'wait'",
		"0.5\r\n");
	expect_row("SELECT round(sum(share), 9) FROM time_share GROUP BY run_id, rank LIMIT 1",
		   "1\r\n");
}

/* The last of a pair to arrive does not wait. On a ring of four with one worker at half speed the
 * other three wait half their time, with any neighbour. Messages take almost no time. */
TEST(gossip_pairs_wait_for_the_later_worker)
{
	forget_runs();
	record(SIM FOUR "--strategy=gossip --workers=4 --speed=3:0.5 --trace=5");
	expect_row("SELECT group_concat(wait) FROM (SELECT round(sum(wait_s) / sum(seconds), 1) "
		   "AS wait FROM rank_epoch WHERE epoch >= 1 GROUP BY rank ORDER BY rank)",
		   "\"0.5,0.5,0.5,0.0\"\r\n");
	expect_row("SELECT sum(comm_s) < 0.1 * sum(wait_s) FROM epoch WHERE epoch >= 1", "1\r\n");
	/* the timeline shows the same, and for which worker */
	expect_row("SELECT count(*) > 10, sum(for_rank IS NULL), sum(rank = 3 AND waited_s > 5e-4) "
		   "FROM event_wait WHERE step > 0",
		   "1,0,0\r\n");
}

/* Groups sum by themselves: a group behind a slow link takes longer, but does not wait. Worker 0's
 * link slows its group (0, 1) and worker 2, which holds the same part. */
TEST(workers_wait_within_their_group)
{
	forget_runs();
	record(SIM "--sim.platform=ethernet_10g --sim.slow-link=0:0.01 --strategy=hybrid "
		   "--workers=4 --trace=5");
	expect_row("SELECT sum(wait_s) < 0.02 * sum(comm_s), sum(comm_s) > 0.5 * sum(seconds) "
		   "FROM rank_epoch WHERE epoch >= 1 AND rank = 0",
		   "1,1\r\n");
	/* the opposite worker of the other group is neither in one's group nor at one's place */
	expect_row("SELECT count(*) > 10, sum(rank + for_rank = 3) FROM event_wait WHERE step > 0",
		   "1,0\r\n");
}

/* Of 200 durations the 99th percentile is the 198th. */
TEST(step_time_has_the_99th_percentile)
{
	forget_runs();
	record("--epochs=1");
	char out[OUTPUT];
	command_output(
		words("sqlite3 %s/run.db \"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i "
		      "+ 1 FROM n WHERE i < 200) INSERT INTO event (run_id, rank, seq, epoch, "
		      "step, name, start_s, duration_s) SELECT 1, 0, i, 1, i, 'step', i, i FROM "
		      "n\" 2>&1",
		      folder),
		out, sizeof out);
	ck_assert_str_eq(out, "");
	expect_row("SELECT n, median_s, p99_s FROM step_time", "200,100.5,198\r\n");
}
