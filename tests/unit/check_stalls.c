/*
 * check_stalls.c - ranks without progress (runtime/watch/stall.c): which are reported, when, and
 * which end the run. The test makes the pulses, and moves the times of the last polls into the past
 * instead of waiting.
 */
#include "runtime/train/rows.h"
#include "runtime/watch/watch.h"
#include "tests/fixture.h"
#include "tests/suites.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, TIMEOUT_S = 60 };

static const nsec second = 1000000000;
static struct pulse pulse[RANKS];
static pid_t pid[RANKS];
static char *ended; /* the reason; NULL: the run goes on */
static struct stall t;

static pid_t process_of(const void *self, int rank)
{
	(void)self;
	return pid[rank];
}

static char *name_of(const void *self, int rank)
{
	(void)self;
	return sentence("worker %d", rank);
}

static void end_run(void *self, char *why)
{
	(void)self;
	ended = why;
}

static void set(int rank, enum phase phase, const char *doing, int peer)
{
	pulse[rank].phase = (int16_t)phase;
	pulse[rank].peer = peer;
	snprintf(pulse[rank].doing, sizeof pulse[rank].doing, "%s", doing);
	pulse[rank].events++;
}

static void computes(int rank)
{
	set(rank, PHASE_WORKS, "", 0);
}

static void waits(int rank)
{
	set(rank, PHASE_WORKS, "allreduce", -1);
}

/* Polls once after this time without a poll in between. */
static void poll_after(double seconds)
{
	nsec dt = (nsec)(seconds * 1e9);
	for (int i = 0; i <= RANKS; i++) {
		t.seen[i].got_on -= dt;
		t.seen[i].lived -= dt;
		t.seen[i].stopped -= t.seen[i].stopped ? dt : 0;
	}
	t.looked = clock_now() - second - second / 10;
	stall_poll(&t, false);
}

/* All ranks are alive, and none makes progress. */
static void all_live(double seconds)
{
	for (int i = 0; i < RANKS; i++)
		pulse[i].beat++;
	poll_after(seconds);
}

/* A process that sleeps. */
static pid_t sleeper(void)
{
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	return child;
}

static void set_up(void)
{
	memset(pulse, 0, sizeof pulse);
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
	ended = NULL;
	t = (struct stall){.ranks = RANKS,
			   .pulse = pulse,
			   .timeout_s = TIMEOUT_S,
			   .setting = "limit",
			   .workers = RANKS,
			   .process = process_of,
			   .name = name_of,
			   .end = end_run};
	stall_open(&t);
	for (int i = 0; i < RANKS; i++) {
		pid[i] = PROCESS_FAR;
		computes(i);
	}
	stall_poll(&t, false);
}

static void tear_down(void)
{
	for (int i = 0; i < RANKS; i++)
		if (pid[i] > 0) {
			kill(pid[i], SIGKILL);
			waitpid(pid[i], NULL, 0);
		}
	stall_close(&t);
	free(ended);
}

/* Lets all other ranks make progress, also with a sign of life of this one. */
static void others_go_on(int rank, double seconds)
{
	for (int i = 0; i < RANKS; i++) {
		pulse[i].beat++;
		pulse[i].events += i != rank;
	}
	poll_after(seconds);
}

/* Only this rank is reported. -1: none. */
static void ck_named(int rank)
{
	for (int i = 0; i < RANKS; i++)
		ck_assert_msg((t.seen[i].named != NULL) == (i == rank), "worker %d is %sreported",
			      i, t.seen[i].named ? "" : "not ");
}

/* Rank 1 pauses for 30 s; it is not reported in this time. */
static void pauses(double seconds)
{
	pulse[1].expected = 30 * second;
	set(1, PHASE_WORKS, "a pause", WAITS_LEGITIMATELY);
	others_go_on(1, 1);
	others_go_on(1, seconds);
	ck_named(-1);
}

static void ck_ended(const char *why)
{
	ck_assert_msg(ended && strstr(ended, why), "\"%s\" is not in: %s", why,
		      ended ? ended : "(the run goes on)");
}

/* Rank 1 makes no progress from now on: it is reported within 10 s, and ends the run after the
 * timeout. */
static void ck_stall(const char *why)
{
	others_go_on(1, 6);
	ck_named(-1);
	others_go_on(1, 3);
	ck_named(1);
	others_go_on(1, TIMEOUT_S - 10);
	ck_assert_ptr_null(ended);
	others_go_on(1, 2);
	ck_ended(why);
}

CASE("stalls", .set_up = set_up, .tear_down = tear_down);

TEST(worker_that_computes_without_end_is_reported)
{
	ck_stall("worker 1 computes without progress, for 61 s (limit=60)");
}

/* Neither a pause, nor a wait for others, nor loading makes the limits longer. */
TEST(waits_do_not_lengthen_the_limits)
{
	pauses(35);
	waits(1);
	others_go_on(1, 1);
	others_go_on(1, 40);
	ck_named(-1);
	set(1, PHASE_LOADS, "", 0);
	for (int i = 0; i < 30; i++) {
		pulse[1].cpu += second / 100;
		others_go_on(1, 1.5);
	}
	ck_named(-1);
	computes(1);
	others_go_on(1, 0);
	ck_stall("worker 1 computes without progress");
}

TEST(long_steps_lengthen_the_limits)
{
	others_go_on(1, 25);
	ck_named(1); /* its first step: it is not known yet how long they take */
	computes(1);
	others_go_on(1, 0);
	ck_named(-1);
	others_go_on(1, 40);
	ck_named(-1);
	others_go_on(1, 15);
	ck_named(1);
	others_go_on(1, 15);
	ck_assert_ptr_null(ended);
	others_go_on(1, 10);
	ck_ended("for 80 s");
}

TEST(worker_that_waits_for_another_is_not_reported)
{
	waits(0);
	waits(2);
	others_go_on(1, 0);
	all_live(9);
	ck_named(1);
	all_live(60);
	ck_ended("worker 1 computes");
}

TEST(workers_that_all_wait_are_reported)
{
	for (int i = 0; i < RANKS; i++)
		set(i, PHASE_STARTS, "MPI_Init", -1);
	poll_after(0);
	for (int round = 0; round < 2; round++) {
		all_live(round ? 60 : 9);
		for (int i = 0; i < RANKS; i++)
			ck_assert_ptr_nonnull(t.seen[i].named);
	}
	ck_ended("worker 0 waits for others (MPI_Init), like all ranks, for 69 s");
}

/* A rank that cannot be seen may be at work; one that has ended is not. */
TEST(unseen_rank_may_be_at_work)
{
	for (int i = 0; i < RANKS; i++)
		waits(i);
	pid[2] = PROCESS_UNSEEN;
	poll_after(0);
	all_live(70);
	ck_named(-1);
	pid[2] = PROCESS_ENDED;
	pulse[0].beat++;
	pulse[1].beat++;
	poll_after(0);
	ck_ended("like all ranks");
}

/* A pause lasts as long as it should; a database may take some seconds. */
TEST(wait_for_a_database_is_limited)
{
	pauses(36);
	others_go_on(1, 3);
	ck_named(1);
	pulse[1].expected = NO_END;
	set(1, PHASE_WORKS, "the end", WAITS_LEGITIMATELY);
	others_go_on(1, 0);
	others_go_on(1, 1000);
	ck_named(-1);
	pulse[1].expected = 0;
	set(1, PHASE_WORKS, "the database", WAITS_LEGITIMATELY);
	others_go_on(1, 0);
	ck_stall("worker 1 waits for the database, for 61 s");
}

TEST(silent_worker_is_reported)
{
	waits(1);
	poll_after(0);
	for (int s = 0; s < 9; s += 3) {
		ck_named(-1);
		pulse[0].events++;
		pulse[2].events++;
		poll_after(3);
	}
	ck_named(1);
	pulse[0].events++;
	pulse[2].events++;
	poll_after(TIMEOUT_S);
	ck_ended("worker 1 gives no sign of life (allreduce), for 69 s");
}

/* Its processor time is progress while it loads. */
TEST(worker_that_loads_without_cpu_is_reported, 2)
{
	set(1, _i ? PHASE_LOADS : PHASE_STARTS, "", 0);
	others_go_on(1, 0);
	ck_stall(_i ? "worker 1 loads without progress" : "worker 1 has not started yet");
}

TEST(sleeping_process_that_loads_is_reported)
{
	pid[1] = sleeper();
	set(1, PHASE_LOADS, "", 0);
	others_go_on(1, 0);
	ck_stall("worker 1 loads without progress");
}

/* Seconds later it must be known that a process is stopped, also beside a shorter timeout. */
TEST(stopped_process_is_reported, 2)
{
	pid[1] = sleeper();
	t.timeout_s = _i ? 2 : TIMEOUT_S;
	waits(1);
	others_go_on(1, 0);
	kill(pid[1], SIGSTOP);
	while (!process_is_stopped(pid[1], NULL))
		usleep(1000);
	others_go_on(1, 1.5);
	ck_named(-1);
	others_go_on(1, _i ? 2.2 : 7);
	ck_named(1);
	ck_assert_int_eq(ended != NULL, _i);
	if (_i)
		ck_ended("worker 1 is stopped (allreduce), for 4 s (limit=2)");
	kill(pid[1], SIGCONT);
	while (process_is_stopped(pid[1], NULL))
		usleep(1000);
	waits(1);
	others_go_on(1, 1);
	ck_named(-1);
	/* the first stop does not count in the second */
	kill(pid[1], SIGSTOP);
	while (!process_is_stopped(pid[1], NULL))
		usleep(1000);
	others_go_on(1, 1.5);
	ck_named(-1);
}

TEST(stopped_launcher_is_reported)
{
	t.launcher = sleeper();
	others_go_on(-1, 1);
	ck_assert_ptr_null(t.seen[RANKS].named);
	kill(t.launcher, SIGSTOP);
	while (!process_is_stopped(t.launcher, NULL))
		usleep(1000);
	others_go_on(-1, 1);
	others_go_on(-1, 9);
	ck_assert_ptr_nonnull(t.seen[RANKS].named);
	ck_named(-1);
	others_go_on(-1, 60);
	kill(t.launcher, SIGKILL);
	waitpid(t.launcher, NULL, 0);
	ck_ended("mpirun is stopped, for 71 s");
}

/* A user's program computes between calls: only while another worker waits is that a stall; and it
 * may wait for something that mvbench does not know. */
TEST(programs_may_compute_and_wait)
{
	t.programs = true;
	all_live(100);
	ck_named(-1);
	waits(0);
	poll_after(0);
	all_live(9);
	ck_assert_ptr_nonnull(t.seen[1].named);
	ck_assert_ptr_null(ended);
	for (int i = 0; i < RANKS; i++)
		waits(i);
	poll_after(0);
	all_live(100);
	ck_assert_ptr_nonnull(t.seen[1].named);
	ck_assert_ptr_null(ended);
}

TEST(program_that_computes_while_another_waits_ends_the_run)
{
	t.programs = true;
	waits(0);
	poll_after(0);
	all_live(TIMEOUT_S + 1);
	ck_ended("worker 1 computes without progress");
}

/* A rank that has ended may be the cause: the others wait for it, it does not wait. */
TEST(ended_rank_does_not_wait)
{
	for (int i = 0; i < RANKS; i++)
		waits(i);
	pid[1] = PROCESS_ENDED;
	poll_after(0);
	all_live(9);
	for (int i = 0; i < RANKS; i++)
		ck_assert_int_eq(t.seen[i].named != NULL, i != 1);
}

/* The watcher was stopped itself: then it does not know how long the others made no progress. */
TEST(stopped_watcher_starts_anew)
{
	for (int i = 0; i < RANKS; i++)
		t.seen[i].got_on -= 100 * second;
	t.looked = clock_now() - 100 * second;
	stall_poll(&t, false);
	ck_named(-1);
	ck_stall("worker 1 computes without progress");
}

/* ---- The status page --------------------------------------------------------- */

CASE("page", .set_up = folder_new, .tear_down = folder_free);

static bool found(const struct status_page *head, const char *path)
{
	char *variable AUTOFREE = status_variable(head, path);
	struct status_page *l = status_find(variable);
	status_free(l);
	return l != NULL;
}

/* Ranks write into the page, so it has to be the one that their launcher made. */
TEST(file_of_others_is_no_status_page)
{
	char path[PATH_MAX], *link AUTOFREE = sentence("%s/link", folder);
	struct status_page *mine = must(status_new(3, 2, folder, path));
	struct status_page other = *mine;
	const off_t bytes = (off_t)status_bytes(mine);
	ck_assert(found(mine, path));
	other.magic++;
	ck_assert(!found(&other, path));
	other = *mine;
	other.epochs--;
	other.ranks += (int)(sizeof(struct epoch_row) / sizeof(struct pulse));
	ck_assert(!found(&other, path));
	ck_assert(!found(mine, folder));
	ck_assert(symlink(path, link) == 0 && !found(mine, link));
	ck_assert(truncate(path, bytes + 1) == 0 && !found(mine, path));
	ck_assert(truncate(path, bytes - 1) == 0 && !found(mine, path));
	ck_assert(truncate(path, bytes) == 0 && found(mine, path));
	if (geteuid() == 0)
		ck_assert(chown(path, 1, 1) == 0 && !found(mine, path));
	ck_assert(!status_find(NULL) && !status_find("") && !status_find("1:2:3"));
	status_free(mine);
}

/* A run of any length needs the same memory: the page has the newest rows, and sums of all. */
TEST(page_keeps_the_newest_rows)
{
	enum { EPOCHS = 3 * PAGE_ROWS + 7 };
	char path[PATH_MAX];
	struct status_page *l = must(status_new(EPOCHS, 2, folder, path));
	const struct status_page longer = {.epochs = 1000000, .ranks = 2};
	ck_assert_uint_eq(status_bytes(l), status_bytes(&longer));
	status_pulse(l, 0)->events = status_pulse(l, 1)->events = 3;
	for (int64_t e = 2; e <= EPOCHS; e++) /* resumed after epoch 1 */
		page_add(l, &(struct epoch_row){.epoch = e,
						.split = {.seconds = 2,
							  .run_delay_s = 0.5,
							  .steal_s = NAN,
							  .dropped = 1}});
	ck_assert_int_eq(l->rows, EPOCHS - 1);
	for (int64_t i = l->rows - PAGE_ROWS; i < l->rows; i++)
		ck_assert_int_eq(page_row(l, i)->epoch, i + 2);
	ck_assert_int_eq(l->sum.first, 2);
	ck_assert_int_eq(l->sum.dropped, l->rows);
	ck_assert_double_eq(l->sum.seconds, 2.0 * (double)l->rows);
	ck_assert_double_eq(l->sum.delay_s, 0.5 * (double)l->rows);
	ck_assert_int_eq(status_pulse(l, 0)->events + status_pulse(l, 1)->events, 6);
	status_free(l);
}
