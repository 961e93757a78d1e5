/*
 * submit.c - mvbench submit: a sweep as an array of Slurm jobs. Each job runs its share of the
 * cells and records them in its own database, because machines must not share one over a network
 * file system. A last job merges them. The same command again resumes after an aborted job,
 * because its database has the finished cells.
 */
#include "results/run/cells.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct submit_flags {
	int64_t array, nodes;
	const char *sbatch;
	bool dry_run;
};

#define OWNER struct submit_flags
static const struct option submit_flags[] = {
	OPTION(array, INT, "array", "1", "jobs that share the cells [jobs]", .min = 1,
	       .max = 10000),
	OPTION(nodes, INT, "nodes", "1",
	       "machines of each job, over which each cell spreads evenly "
	       "[machines]",
	       .min = 1, .max = 10000),
	OPTION(sbatch, STRING, "sbatch", "",
	       "other options of sbatch, as in --sbatch=\"--partition=short --time=2:00:00\" "
	       "[text]"),
	OPTION(dry_run, BOOL, "dry-run", "false", "print the scripts, submit nothing"),
	{0},
};

struct submission {
	const struct submit_flags *f;
	const struct arguments *a;
	const struct sweep *sweep;
	const char *name, *db; /* name: of the job file */
	/* as words of a shell: full paths, and --db without .db */
	const char *file, *program, *stem;
};

static int64_t shared_by(int64_t n, int64_t nodes)
{
	return (n + nodes - 1) / nodes;
}

/* The most ranks that a cell puts on a machine. On several machines, strategies with tables get a
 * server on each. */
static void most_ranks(const struct submission *s, int64_t *ranks, int64_t *threads)
{
	int64_t nodes = s->f->nodes;
	*ranks = *threads = 1;
	for (size_t i = 0; i < s->sweep->cells; i++) {
		const struct config *c = &s->sweep->cell[i].config;
		bool own = c->strategy->terms && !c->run.servers && nodes > 1;
		bool simulated = is_simulated(c);
		int64_t n = simulated ? 1
				      : shared_by(c->run.workers, nodes) +
						(own ? 1 : shared_by(c->run.servers, nodes));
		*ranks = n > *ranks ? n : *ranks;
		*threads = c->run.threads > *threads ? c->run.threads : *threads;
	}
}

static void put_head(FILE *f, const struct submission *s, const char *what)
{
	fprintf(f, "#!/bin/sh\n#SBATCH --job-name=%s%s\n", s->name, what);
	if (*s->f->sbatch)
		fprintf(f, "#SBATCH %s\n", s->f->sbatch);
}

static void put_word(FILE *f, const char *name, const char *value)
{
	char *word AUTOFREE = sentence("--%s=%s", name, value ? value : "true");
	fputc(' ', f);
	word_put(f, word);
}

/* Writes a host file with every machine of the job once, without slots. */
static void put_hosts(FILE *f)
{
	fputs("hosts=$(mktemp)\n"
	      "trap 'rm -f \"$hosts\"' EXIT\n"
	      "scontrol show hostnames >\"$hosts\"\n"
	      "export MVBENCH_HOSTFILE=\"$hosts\"\n",
	      f);
}

/* The job of one share. */
static char *array_script(const struct submission *s)
{
	struct text t;
	FILE *f = text_open(&t);
	int64_t ranks, threads;
	most_ranks(s, &ranks, &threads);
	put_head(f, s, "");
	fprintf(f,
		"#SBATCH --array=1-%lld\n#SBATCH --nodes=%lld\n#SBATCH --ntasks-per-node=%lld\n"
		"#SBATCH --cpus-per-task=%lld\n#SBATCH --output=%s-%%A_%%a.out\n\n",
		(long long)s->f->array, (long long)s->f->nodes, (long long)ranks,
		(long long)threads, s->name);
	if (s->f->nodes > 1)
		put_hosts(f);
	fprintf(f, "%s sweep %s", s->program, s->file);
	for (size_t i = 0; i < s->a->options; i++)
		if (strcmp(s->a->option[i].name, "db") != 0)
			put_word(f, s->a->option[i].name, s->a->option[i].value);
	fprintf(f,
		" --share=\"$SLURM_ARRAY_TASK_ID/%lld\" "
		"--db=%s-\"$SLURM_ARRAY_TASK_ID\"-of-%lld.db\n",
		(long long)s->f->array, s->stem, (long long)s->f->array);
	return text_close(&t);
}

/* The last job: merges the databases of the others into one. A damaged one keeps no other out. */
static char *merge_script(const struct submission *s)
{
	struct text t;
	FILE *f = text_open(&t);
	put_head(f, s, "-merge");
	fprintf(f,
		"#SBATCH --ntasks=1\n#SBATCH --output=%s-%%j.out\n\nset -e\nbad=0\n"
		"for part in %s-[0-9]*-of-%lld.db; do\n\t%s import \"$part\"",
		s->name, s->stem, (long long)s->f->array, s->program);
	put_word(f, "db", s->db);
	fprintf(f, " || bad=1\ndone\n%s table", s->program);
	put_word(f, "db", s->db);
	fputs("\nexit $bad\n", f);
	return text_close(&t);
}

/* Hands a script to sbatch on its stdin; *id (heap): the job number that it prints. */
static char *hand_over(const char *script, const char *words, char **id)
{
	char said[64] = "", *command AUTOFREE = sentence("sbatch --parsable %s <<'MVBENCH_SCRIPT'\n"
							 "%sMVBENCH_SCRIPT\n",
							 words, script);
	signal(SIGCHLD, SIG_DFL); /* if the parent left it ignored, pclose gets no status */
	FILE *p = popen(command, "r");
	bool heard = p && fgets(said, sizeof said, p);
	int status = p ? pclose(p) : -1;
	said[strcspn(said, "\n;")] = '\0';
	*id = must(strdup(said));
	return heard && status == 0 ? NULL
				    : sentence("sbatch did not take the job; its message is above");
}

static char *submit_all(const struct submission *s)
{
	char *each AUTOFREE = array_script(s), *last AUTOFREE = merge_script(s),
		   *id AUTOFREE = NULL, *merge AUTOFREE = NULL;
	if (s->f->dry_run) {
		printf("%s\n# and, when all of these have ended:\n\n%s", each, last);
		return NULL;
	}
	TRY(hand_over(each, "", &id));
	char *after AUTOFREE = sentence("--dependency=afterany:%s", id);
	char *wrong AUTOFREE = hand_over(last, after, &merge);
	if (wrong)
		return sentence("job %s is submitted, but not the job that merges its databases: "
				"%s",
				id, wrong);
	printf("job %s: %zu cell%s in %lld part%s; job %s merges them into %s\n", id,
	       s->sweep->cells, plural((int64_t)s->sweep->cells), (long long)s->f->array,
	       plural(s->f->array), merge, s->db);
	return NULL;
}

/* With only the characters that are safe in #SBATCH lines. */
static char *job_name(const char *path)
{
	char *name = text_without(basename(path), ".ini");
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
			*c = '-';
	return name;
}

static char *run_submit(void *options, struct arguments *a, int *status)
{
	struct sweep sweep ENDS_WITH(sweep_free) = {.cell = NULL};
	struct submission s = {.f = options, .a = a, .sweep = &sweep};
	char *path AUTOFREE = NULL;
	(void)status;
	TRY(sweep_find(a, "submit", "demo.ini --array=4", &path));
	TRY(sweep_read(path, a->option, a->options, &sweep, NULL, false));
	if ((size_t)s.f->array > sweep.cells)
		return sentence("--array=%lld: there are %zu cells; give at most one job for each",
				(long long)s.f->array, sweep.cells);
	s.db = sweep.cell[0].config.harness.db;
	char *name AUTOFREE = job_name(path), *full AUTOFREE = must(realpath(path, NULL)),
		   *own AUTOFREE = program_path(), *stem AUTOFREE = text_without(s.db, ".db");
	char *file AUTOFREE = word_quoted(full), *program AUTOFREE = word_quoted(own),
		   *parts AUTOFREE = word_quoted(stem);
	s.name = name;
	s.file = file;
	s.program = program;
	s.stem = parts;
	return submit_all(&s);
}

const struct command command_submit = {
	.name = "submit",
	.summary = "run a sweep as an array of Slurm jobs",
	.usage = "FILE.ini [--option=value ...]",
	.about =
		"Writes the script of an array of jobs, each of which runs its share of the cells "
		"of a job file (mvbench sweep --share), and that of a last job, which merges their "
		"databases (mvbench import), and hands both to sbatch. Options of mvbench "
		"run replace those of the file, as in a sweep.\n\n"
		"Each job has a database of its own: NAME-1-of-4.db, NAME-2-of-4.db, ... for "
		"--db=NAME.db and --array=4. When they have ended, submit again with the same "
		"number of jobs to run the cells that are left.\n\n"
		"Exit status: 0 submitted, 2 refused.",
	.options = submit_flags,
	.words = job_files_each,
	.size = sizeof(OWNER),
	.run_options = true,
	.run = run_submit,
};
