/*
 * plot.c - `mvbench plot`: figures from the store, drawn by gnuplot.
 *
 * A figure is a stem in the plots folder: NAME.sql says what is drawn, NAME.gp how. The stem
 * `style` is what all of them share. For each figure its query runs over the chosen runs and gives
 * rows of (workload, title, numbers ...). Each workload becomes a picture of its own, each title a
 * block of
 *
 *      title <tab> column names ...
 *      number <tab> number ...
 *
 * in data.tsv, with two blank lines between blocks. gnuplot is started in the folder of that file,
 * without a shell, on style.gp and NAME.gp; it leaves figure.png or figure.svg there, which is then
 * copied to where it was asked for. Text out of the database or off the command line reaches
 * gnuplot in data files only, never as code: see put_text.
 */
#include "../results/database.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BLOCKS_MAX = 60, /* of one picture: more lines than that tell nothing */
	GLYPHS = 64,
	TEXT_MAX = 96,       /* characters of a name that are shown */
	COMPLAINT_MAX = 2000 /* bytes of gnuplot's output that are kept */
};

static const char folder_default[] = "mvbench-plots";

struct plot_options {
	const char *db, *where, *format, *out, *title;
	bool list, summary; /* summary: a bare --title */
};

static const struct option plot_options[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, db),
	 .def = DATABASE,
	 .help = "database to draw from [file]"},
	{.name = "where",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, where),
	 .def = "",
	 .help = "which runs: a condition on the columns of run_summary, such as "
		 "\"strategy = 'asgd' AND workers > 1\" [SQL]"},
	{.name = "format",
	 .type = OPT_CHOICE,
	 .offset = offsetof(struct plot_options, format),
	 .def = "auto",
	 .choices = "auto|png|svg",
	 .help = "auto: as --out ends, or png"},
	{.name = "out",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, out),
	 .def = folder_default,
	 .help = "where to: a folder, or for one figure a file that ends in .png or .svg [path]"},
	{.name = "title",
	 .type = OPT_STRING,
	 .offset = offsetof(struct plot_options, title),
	 .def = "",
	 .help = "above the figure; --title alone takes the figure's summary [text]"},
	{.name = "list",
	 .type = OPT_BOOL,
	 .offset = offsetof(struct plot_options, list),
	 .def = "false",
	 .help = "list the figures and stop"},
	{.name = NULL}};

static bool bare(const char *name)
{
	return strcmp(name, "list") == 0 || strcmp(name, "title") == 0;
}

/* ---- Figures: the stems of a folder -------------------------------------- */

struct figure {
	char *name, *summary, *needs; /* the first two comment lines of NAME.sql */
};

struct figures {
	char *folder;
	struct figure *figure;
	size_t n;
};

/* NULL and errno when it cannot be read. */
static char *read_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;

	if (!f)
		return NULL;
	if (getdelim(&text, &room, '\0', f) < 0) {
		free(text);
		text = must(strdup(""));
	}
	fclose(f);
	return text;
}

/* The next line of a comment at the head of a query, without its dashes. */
static char *comment_line(const char **text)
{
	if (strncmp(*text, "--", 2) != 0)
		return must(strdup(""));
	const char *line = *text + 2 + strspn(*text + 2, " \t");
	size_t n = strcspn(line, "\r\n");
	*text = line + n + strspn(line + n, "\r\n");
	return must(strndup(line, n));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct figure *)a)->name, ((const struct figure *)b)->name);
}

static void figures_fini(struct figures *fs)
{
	for (size_t i = 0; i < fs->n; i++) {
		free(fs->figure[i].name);
		free(fs->figure[i].summary);
		free(fs->figure[i].needs);
	}
	free(fs->figure);
	free(fs->folder);
	*fs = (struct figures){.folder = NULL};
}

static char *figures_init(struct figures *fs)
{
	*fs = (struct figures){.folder = installed_path("plots")};
	DIR *dir = fs->folder ? opendir(fs->folder) : NULL;
	if (!dir) {
		figures_fini(fs);
		return sentence("the folder `plots` with the figures is missing: it belongs beside "
				"the program's build folder, or in ../share/mvbench");
	}
	for (struct dirent *e; (e = readdir(dir));) {
		size_t n = strlen(e->d_name);
		if (n < 5 || strcmp(e->d_name + n - 4, ".sql") != 0 || e->d_name[0] == '.' ||
		    strcmp(e->d_name, "style.sql") == 0)
			continue;
		char *sql = sentence("%s/%s", fs->folder, e->d_name), *text = read_text(sql);
		char *gp = sentence("%s/%.*s.gp", fs->folder, (int)n - 4, e->d_name);
		if (text && access(gp, R_OK) == 0) {
			const char *at = text;
			fs->figure = must(realloc(fs->figure, (fs->n + 1) * sizeof(*fs->figure)));
			struct figure *f = &fs->figure[fs->n++];
			f->name = must(strndup(e->d_name, n - 4));
			f->summary = comment_line(&at);
			f->needs = comment_line(&at);
		}
		free(gp);
		free(text);
		free(sql);
	}
	closedir(dir);
	if (fs->n)
		qsort(fs->figure, fs->n, sizeof(*fs->figure), by_name);
	return NULL;
}

static void figures_print(const struct figures *fs, FILE *f)
{
	size_t wide = 0;

	for (size_t i = 0; i < fs->n; i++)
		wide = strlen(fs->figure[i].name) > wide ? strlen(fs->figure[i].name) : wide;
	for (size_t i = 0; i < fs->n; i++)
		fprintf(f, "%-*s  %s\n", (int)wide, fs->figure[i].name, fs->figure[i].summary);
}

static const struct figure *figures_find(const struct figures *fs, const char *name, char **wrong)
{
	const char **names = must(calloc(fs->n + 1, sizeof(*names)));

	for (size_t i = 0; i < fs->n; i++) {
		names[i] = fs->figure[i].name;
		if (strcmp(name, names[i]) == 0) {
			free(names);
			return &fs->figure[i];
		}
	}
	const char *near = nearest(name, names, fs->n);
	if (near)
		*wrong = sentence("%s: there is no such figure; did you mean %s?", name, near);
	else
		*wrong = sentence("%s: there is no such figure; `mvbench plot --list` names them",
				  name);
	free(names);
	return NULL;
}

/* ---- Programs ------------------------------------------------------------ */

/* Runs it in the folder; what it says goes to complaint. Returns an exit status of ours. */
static int program_run(const char *folder, char *const *argv, char complaint[COMPLAINT_MAX])
{
	char rest[512];
	int said[2], failed[2], why = 0, status = 0;
	size_t n = 0;
	ssize_t got;

	CHECK(pipe2(said, O_CLOEXEC) == 0 && pipe2(failed, O_CLOEXEC) == 0, "pipe: %s",
	      strerror(errno));
	fflush(NULL);
	pid_t child = fork();
	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		int null = open("/dev/null", O_RDONLY);
		dup2(null, STDIN_FILENO);
		dup2(said[1], STDOUT_FILENO);
		dup2(said[1], STDERR_FILENO);
		setenv("LC_ALL", "C.UTF-8", 1); /* else it cannot read its own degree sign */
		if (chdir(folder) == 0)
			execvp(argv[0], argv);
		why = errno;
		if (write(failed[1], &why, sizeof(why)) < 0)
			_exit(126);
		_exit(127);
	}
	close(said[1]);
	close(failed[1]);
	while ((got = read(said[0], rest, sizeof(rest))) > 0 || (got < 0 && errno == EINTR))
		for (ssize_t i = 0; i < got && n + 1 < COMPLAINT_MAX; i++)
			complaint[n++] = rest[i];
	while (n > 0 && isspace((unsigned char)complaint[n - 1]))
		n--;
	complaint[n] = '\0';
	if (read(failed[0], &why, sizeof(why)) != (ssize_t)sizeof(why))
		why = 0;
	close(said[0]);
	close(failed[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (why) {
		snprintf(complaint, COMPLAINT_MAX, "%s",
			 why == ENOENT
				 ? "gnuplot, which draws the figures, is not installed: "
				   "`apt-get install gnuplot-nox` (or `make deps`) installs it"
				 : strerror(why));
		return EXIT_USER;
	}
	if (WIFSIGNALED(status))
		snprintf(complaint + n, COMPLAINT_MAX - n, "%sended by signal %d", n ? "\n" : "",
			 WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? EXIT_OK : EXIT_FAILED;
}

struct drawing { /* what all figures of one command share */
	sqlite3 *db;
	const char *db_path;
	const char *plots;     /* the folder of the figures */
	const char *scratch;   /* gnuplot's folder */
	const char *format;    /* png or svg */
	const char *out, *end; /* a path is OUT/NAME-WORKLOAD.png, or OUT-WORKLOAD END */
	const char *title;
	bool summary; /* the title is the figure's own */
	bool where;   /* was there a --where? */
	struct {
		unsigned code;
		bool have;
	} glyph[GLYPHS]; /* what fc-list said of unusual characters */
	size_t glyphs;
	char **written;
	size_t nwritten;
	bool stuck; /* gnuplot's folder cannot be written: no figure can be drawn */
};

/* NULL, or a sentence. */
static char *make_file(struct drawing *d, const char *path, FILE **f)
{
	*f = fopen(path, "w");
	if (*f)
		return NULL;
	d->stuck = true;
	return sentence("cannot write %s: %s; free some space, or set TMPDIR to a folder that has "
			"it",
			path, strerror(errno));
}

/* ---- Text that gnuplot shows as it is ------------------------------------ */

/* The length of the UTF-8 sequence at s, 0 when it is none. */
static size_t utf8_length(const unsigned char *s, unsigned *code)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;

	if (n == 0 || s[0] > 0xf4)
		return 0;
	*code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if (n > 1 && (*code < least[n] || *code > 0x10ffff || *code >> 11 == 0x1b))
		return 0;
	return n;
}

/* Is there a font with this character? Without one, gnuplot's PNG terminal paints over the picture
 * where an SVG's reader may well have one. DejaVu is known to have those of Europe, and symbols. */
static bool drawable(struct drawing *d, unsigned code)
{
	char answer[COMPLAINT_MAX] = "", *charset;

	if (strcmp(d->format, "png") != 0 || code < 0x530 || (code >= 0x1e00 && code < 0x2750) ||
	    code == 0xfffd)
		return true;
	for (size_t i = 0; i < d->glyphs; i++)
		if (d->glyph[i].code == code)
			return d->glyph[i].have;
	if (d->glyphs == GLYPHS)
		return false;
	charset = sentence(":charset=%x", code);
	char *argv[] = {"fc-list", charset, "family", NULL};
	bool have = program_run(d->scratch, argv, answer) == EXIT_OK && answer[0];
	free(charset);
	d->glyph[d->glyphs].code = code;
	d->glyph[d->glyphs++].have = have;
	return have;
}

/*
 * Writes a field of a data file. gnuplot ends fields at quotes and reads backslashes as escapes, so
 * both go as octal escapes; a line's end is shown as an arrow, other control characters as spaces,
 * bytes that are no UTF-8 as the replacement character. Returns the width in columns.
 */
static int put_text(struct drawing *d, FILE *f, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	int wide = 0;
	unsigned c = 0;

	for (int shown = 0; *s; shown++) {
		size_t n = utf8_length(s, &c);
		if (shown == TEXT_MAX - 1 && strlen((const char *)s) > n) {
			fputs("…", f);
			return wide + 1;
		}
		if (n == 0) {
			fputs("\xef\xbf\xbd", f);
			n = 1;
			c = ' ';
		} else if (c == '\n') {
			fputs("↵", f);
		} else if (c < ' ' || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c < 0x2010) ||
			   (c >= 0x2028 && c < 0x202f) || (c & 0xfffe) == 0xfffe) {
			fputc(' ', f);
		} else if (c == '"' || c == '\\') {
			fprintf(f, "\\%03o", c);
		} else if (!drawable(d, c)) {
			wide += fprintf(f, "<%04X>", c); /* capitals are wide */
		} else {
			fwrite(s, 1, n, f);
			wide += c >= 0x1100 && (c < 0x1e00 || c >= 0x2e80);
		}
		wide++;
		s += n;
	}
	return wide;
}

/* ---- Data: from a query to files ----------------------------------------- */

struct picture { /* one workload's part of a figure */
	char *workload;
	int blocks, rows; /* rows: of the longest block */
	int more;         /* blocks beyond BLOCKS_MAX, left out */
	int widest;       /* title [columns] */
};

struct pictures {
	struct picture *picture;
	size_t n;
};

static void pictures_free(struct pictures *ps)
{
	for (size_t i = 0; i < ps->n; i++)
		free(ps->picture[i].workload);
	free(ps->picture);
	*ps = (struct pictures){.picture = NULL};
}

static const char *column(sqlite3_stmt *q, int i)
{
	const char *text = (const char *)sqlite3_column_text(q, i);

	return text ? text : "";
}

static void put_row(struct drawing *d, FILE *f, sqlite3_stmt *q)
{
	for (int i = 2; i < sqlite3_column_count(q); i++) {
		if (i > 2)
			fputc('\t', f);
		if (sqlite3_column_type(q, i) == SQLITE_NULL)
			fputs("NaN", f);
		else if (sqlite3_column_type(q, i) == SQLITE_TEXT)
			put_text(d, f, column(q, i));
		else
			fprintf(f, "%.9g", sqlite3_column_double(q, i));
	}
	fputc('\n', f);
}

/* Writes FOLDER/data-K.tsv and names-K.tsv for each workload, in the order of the rows. */
static char *put_rows(struct drawing *d, const char *sql_path, sqlite3_stmt *q, struct pictures *ps)
{
	FILE *data = NULL, *names = NULL;
	char *title = NULL, *wrong = NULL;
	int status, rows = 0;

	while ((status = sqlite3_step(q)) == SQLITE_ROW) {
		struct picture *p = ps->n ? &ps->picture[ps->n - 1] : NULL;
		bool fresh = !p || strcmp(p->workload, column(q, 0)) != 0;
		if (fresh) {
			char *path[] = {sentence("%s/data-%zu.tsv", d->scratch, ps->n),
					sentence("%s/names-%zu.tsv", d->scratch, ps->n)};
			if (data)
				fclose(data);
			if (names)
				fclose(names);
			data = names = NULL;
			wrong = make_file(d, path[0], &data);
			if (!wrong)
				wrong = make_file(d, path[1], &names);
			free(path[0]);
			free(path[1]);
			if (wrong)
				break;
			ps->picture = must(realloc(ps->picture, (ps->n + 1) * sizeof(*p)));
			p = &ps->picture[ps->n++];
			*p = (struct picture){.workload = must(strdup(column(q, 0)))};
		}
		if (fresh || strcmp(title, column(q, 1)) != 0) {
			free(title);
			title = must(strdup(column(q, 1)));
			rows = 0;
			if (p->blocks == BLOCKS_MAX) {
				p->more++;
				continue;
			}
			fputs(fresh ? "" : "\n\n", data);
			put_text(d, data, title);
			for (int i = 3; i < sqlite3_column_count(q); i++) {
				fputc('\t', data);
				put_text(d, data, sqlite3_column_name(q, i));
			}
			fputc('\n', data);
			fputc('=', names); /* a line is never empty */
			int wide = put_text(d, names, title);
			fputc('\n', names);
			p->widest = wide > p->widest ? wide : p->widest;
			p->blocks++;
		}
		if (p->more)
			continue;
		put_row(d, data, q);
		rows++;
		p->rows = rows > p->rows ? rows : p->rows;
	}
	free(title);
	bool bad = (data && fclose(data)) | (names && fclose(names));
	if (wrong)
		return wrong;
	if (status != SQLITE_DONE)
		return sentence("%s: %s", sql_path, sqlite3_errmsg(sqlite3_db_handle(q)));
	if (bad)
		return sentence("%s: cannot write: %s", d->scratch, strerror(errno));
	return NULL;
}

static char *figure_query(struct drawing *d, const char *name, struct pictures *ps)
{
	char *path = sentence("%s/%s.sql", d->plots, name), *sql = read_text(path), *wrong = NULL;

	*ps = (struct pictures){.n = 0};
	for (const char *at = sql; at && *at && !wrong;) {
		sqlite3_stmt *q = NULL;
		if (sqlite3_prepare_v2(d->db, at, -1, &q, &at) != SQLITE_OK)
			wrong = sentence("%s: %s", path, sqlite3_errmsg(d->db));
		else if (q && sqlite3_column_count(q) == 0 && sqlite3_step(q) != SQLITE_DONE)
			wrong = sentence("%s: %s", path, sqlite3_errmsg(d->db));
		else if (q && sqlite3_column_count(q) == 0)
			;
		else if (q && sqlite3_column_count(q) < 3)
			wrong = sentence(
				"%s: a query gives workload, title and at least one number", path);
		else if (q && ps->n == 0)
			wrong = put_rows(d, path, q, ps);
		sqlite3_finalize(q);
	}
	if (!sql)
		wrong = sentence("%s: %s", path, strerror(errno));
	free(sql);
	free(path);
	return wrong;
}

static char *copy_file(const char *from, const char *to)
{
	char block[65536];
	size_t n;
	char *beside = sentence("%s.part", to), *wrong = NULL;
	FILE *in = fopen(from, "rb"), *out = fopen(beside, "wb");
	bool bad = !in || !out;

	while (!bad && (n = fread(block, 1, sizeof(block), in)) > 0)
		bad = fwrite(block, 1, n, out) != n;
	bad |= in && ferror(in);
	if (in)
		fclose(in);
	if (out && fclose(out))
		bad = true;
	if (bad || rename(beside, to) != 0) {
		wrong = sentence("%s: cannot write: %s", to, strerror(errno));
		if (out)
			unlink(beside);
	}
	free(beside);
	return wrong;
}

/* ---- One figure ---------------------------------------------------------- */

/* The result of a query of one text or number; heap. */
static char *ask(sqlite3 *db, const char *sql, const char *param)
{
	sqlite3_stmt *q = NULL;
	char *answer = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK) {
		sqlite3_bind_text(q, 1, param, -1, SQLITE_TRANSIENT);
		if (sqlite3_step(q) == SQLITE_ROW)
			answer = must(strdup(column(q, 0)));
	}
	sqlite3_finalize(q);
	return answer ? answer : must(strdup(""));
}

/* Where a picture goes. A workload's name is part of it when there are several, as far as its
 * characters are harmless; a number tells apart what is then equal. */
static char *picture_path(const struct drawing *d, const char *name, const char *workload)
{
	char *part = sentence("%s%s", workload ? "-" : "", workload ? workload : "");
	char *path = NULL;
	bool taken = true;

	for (char *c = part; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_' && (*c != '.' || c < part + 2))
			*c = '-';
	if (strlen(part) > 64)
		part[64] = '\0';
	for (int copy = 1; taken; copy++) {
		char number[16] = "";
		if (copy > 1)
			snprintf(number, sizeof(number), "-%d", copy);
		free(path);
		path = d->end ? sentence("%s%s%s%s", d->out, part, number, d->end)
			      : sentence("%s/%s%s%s.%s", d->out, name, part, number, d->format);
		taken = false;
		for (size_t i = 0; i < d->nwritten; i++)
			taken |= strcmp(path, d->written[i]) == 0;
	}
	free(part);
	return path;
}

/* The text around a picture: heading, footnote, and the three lines of an empty one. NULL or a
 * sentence. */
static char *put_words(struct drawing *d, const struct figure *f, const struct picture *p)
{
	char *path = sentence("%s/words.tsv", d->scratch);
	FILE *file;
	char *wrong = make_file(d, path, &file);

	if (wrong) {
		free(path);
		return wrong;
	}
	char *foot = ask(d->db, "SELECT text FROM footnote WHERE workload = ?1", p->workload);
	if (p->more) {
		char *left = sentence("The first %d of %d are shown; --where chooses others. %s",
				      p->blocks, p->blocks + p->more, foot);
		free(foot);
		foot = left;
	}
	char *finished = ask(d->db, "SELECT count(*) FROM selected", NULL);
	/* The summary's first part: what follows says how. */
	char *heading = d->summary ? must(strndup(f->summary, strcspn(f->summary, ":;(,.")))
				   : must(strdup(d->title));
	char *found;

	if (strcmp(finished, "0") == 0)
		found = sentence("No finished run in this database%s.",
				 d->where ? " matches --where" : "");
	else
		found = sentence("%s finished run%s here, but nothing of this kind.", finished,
				 strcmp(finished, "1") == 0 ? " is" : "s are");
	const char *line[] = {heading, p->workload, foot, f->needs, found, d->db_path};
	for (size_t i = 0; i < sizeof(line) / sizeof(*line); i++) {
		fputc('=', file);
		put_text(d, file, line[i]);
		fputc('\n', file);
	}
	free(heading);
	free(found);
	free(finished);
	free(foot);
	if (fclose(file))
		wrong = sentence("%s: cannot write: %s", path, strerror(errno));
	free(path);
	return wrong;
}

/* Draws data-K.tsv, or an explanation when there is no data. */
static int draw(struct drawing *d, const struct figure *f, const struct picture *p, size_t k,
		bool several)
{
	char complaint[COMPLAINT_MAX] = "";
	char *set = sentence("format = '%s'; data = 'data-%zu.tsv'; names = 'names-%zu.tsv'; "
			     "blocks = %d; rows = %d; widest = %d",
			     d->format, k, k, p->blocks, p->rows, p->widest);
	char *style = sentence("%s/style.gp", d->plots);
	char *gp = sentence("%s/%s.gp", d->plots, f->name);
	char *made = sentence("%s/figure.%s", d->scratch, d->format);
	char *argv[] = {"gnuplot", "-d", "-e", set, style, p->blocks ? gp : NULL, NULL};
	char *wrong = put_words(d, f, p);
	struct stat st;

	unlink(made);
	int status = wrong ? EXIT_USER : program_run(d->scratch, argv, complaint);
	if (status == EXIT_USER) {
		wrong = wrong ? wrong : must(strdup(complaint));
	} else if (status != EXIT_OK || stat(made, &st) != 0 || st.st_size == 0) {
		status = EXIT_FAILED;
		wrong = sentence("%s.gp: gnuplot failed: %s", f->name,
				 complaint[0] ? complaint : "it drew nothing");
	} else {
		char *path = picture_path(d, f->name, several && *p->workload ? p->workload : NULL);
		/* It also warns when all points are equal, and then does well. */
		if (complaint[0] && !strstr(complaint, "Warning: empty "))
			fprintf(stderr, "mvbench: %s.gp: gnuplot warns: %s\n", f->name, complaint);
		wrong = copy_file(made, path);
		if (wrong) {
			status = EXIT_USER;
			free(path);
		} else {
			puts(path);
			d->written =
				must(realloc(d->written, (d->nwritten + 1) * sizeof(*d->written)));
			d->written[d->nwritten++] = path;
		}
	}
	if (wrong)
		complain(wrong);
	free(made);
	free(gp);
	free(style);
	free(set);
	return status;
}

/* explain: draw a figure without data too. */
static int draw_figure(struct drawing *d, const struct figure *f, bool explain)
{
	struct pictures ps;
	char *kinds = ask(d->db, "SELECT count(DISTINCT workload) FROM selected", NULL);
	bool several = strcmp(kinds, "0") != 0 && strcmp(kinds, "1") != 0;
	char *wrong = figure_query(d, f->name, &ps);
	int status = EXIT_OK;

	free(kinds);
	if (wrong) {
		complain(wrong);
		pictures_free(&ps);
		return d->stuck ? EXIT_USER : EXIT_FAILED;
	}
	for (size_t i = 0; i < ps.n && status == EXIT_OK; i++)
		status = draw(d, f, &ps.picture[i], i, several || ps.n > 1);
	if (ps.n == 0 && explain)
		status = draw(d, f, &(struct picture){.workload = ""}, 0, false);
	pictures_free(&ps);
	return status;
}

/* ---- The command --------------------------------------------------------- */

/* Makes the table `chosen` and what style.sql derives from it, in the connection's temporary
 * schema: the file itself is only read. */
static char *choose(struct store *s, const char *where, const char *plots)
{
	char *sql =
		sentence("CREATE TEMP TABLE chosen AS SELECT id FROM run_summary WHERE (\n%s\n)",
			 where[0] ? where : "1");
	char *file = sentence("%s/style.sql", plots), *style = read_text(file), *wrong = NULL;
	sqlite3_stmt *q = NULL;
	const char *tail = "";
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, &tail);

	if (rc == SQLITE_OK && *tail)
		wrong = sentence("--where=%s: one SQL condition is wanted, and nothing after it",
				 where);
	else if (rc == SQLITE_OK && sqlite3_step(q) != SQLITE_DONE)
		rc = sqlite3_errcode(s->db);
	if (!wrong && rc != SQLITE_OK && where[0])
		wrong = sentence("--where=%s: %s; a condition on the columns of run_summary is "
				 "wanted, such as --where=\"workload='mlp' AND workers=2\"",
				 where, sqlite3_errmsg(s->db));
	else if (!wrong && rc != SQLITE_OK)
		wrong = database_error(s, rc);
	sqlite3_finalize(q);
	if (!wrong && !style)
		wrong = sentence("%s: %s", file, strerror(errno));
	if (!wrong && sqlite3_exec(s->db, style, NULL, NULL, NULL) != SQLITE_OK)
		wrong = sentence("%s: %s", file, sqlite3_errmsg(s->db));
	free(sql);
	free(style);
	free(file);
	return wrong;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *extension(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot && (strcmp(dot, ".png") == 0 || strcmp(dot, ".svg") == 0))
		return dot;
	return NULL;
}

static char *make_folder(const char *path)
{
	char *each = must(strdup(path));
	int failed = 0;

	for (char *c = each + 1; failed == 0; c++) {
		char was = *c;
		if (was != '/' && was != '\0')
			continue;
		*c = '\0';
		if (mkdir(each, 0777) != 0 && errno != EEXIST)
			failed = errno;
		*c = was;
		if (was == '\0')
			break;
	}
	free(each);
	if (!failed && !is_folder(path))
		failed = ENOTDIR;
	return failed ? sentence("--out=%s: cannot make this folder: %s", path, strerror(failed))
		      : NULL;
}

/* Where figures go: a folder, or one file. stem gets the heap copy of a file's path without its
 * end. */
static char *settle_out(struct drawing *d, const struct plot_options *o, size_t names, char **stem)
{
	const char *end = is_folder(o->out) ? NULL : extension(o->out);

	d->format = strcmp(o->format, "auto") ? o->format : end ? end + 1 : "png";
	d->out = o->out;
	if (!o->out[0])
		return sentence("--out: a folder or a file is wanted, as in --out=%s",
				folder_default);
	if (!end) {
		static const char *const others[] = {"pdf",  "eps", "ps",  "jpg",
						     "jpeg", "gif", "tex", "html"};
		const char *dot = strrchr(o->out, '.');
		for (size_t i = 0; dot && i < sizeof(others) / sizeof(*others); i++)
			if (strcmp(dot + 1, others[i]) == 0 && !is_folder(o->out))
				return sentence("--out=%s: a file must end in .png or .svg",
						o->out);
		return make_folder(o->out);
	}
	if (names != 1)
		return sentence("--out=%s: one file holds one figure; name the figure, or give a "
				"folder",
				o->out);
	if (strcmp(d->format, end + 1) != 0)
		return sentence("--out=%s: the file's name and --format=%s disagree", o->out,
				d->format);
	*stem = must(strndup(o->out, (size_t)(end - o->out)));
	d->out = *stem;
	d->end = end;
	return NULL;
}

/* Every figure in turn; a bad query does not keep the others from being drawn. */
static int draw_all(struct drawing *d, const struct figure **wanted, size_t n, bool explain)
{
	int first = EXIT_OK;

	for (size_t i = 0; i < n && first != EXIT_USER; i++) {
		int status = draw_figure(d, wanted[i], explain);
		first = first == EXIT_OK || status == EXIT_USER ? status : first;
	}
	return first;
}

static void remove_folder(const char *path)
{
	DIR *dir = opendir(path);

	for (struct dirent *e; dir && (e = readdir(dir));)
		unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

static int plot(const struct plot_options *o, const struct arguments *a, const struct figures *fs)
{
	const char *temporary = getenv("TMPDIR");
	char *scratch =
		sentence("%s/mvbench-plot-XXXXXX", temporary && *temporary ? temporary : "/tmp");
	size_t n = a->words ? a->words : fs->n;
	const struct figure **wanted = must(calloc(n + 1, sizeof(*wanted)));
	struct drawing d = {.db_path = o->db,
			    .plots = fs->folder,
			    .title = o->title,
			    .summary = o->summary,
			    .where = o->where[0] != '\0'};
	struct store *store = NULL;
	char *wrong = NULL, *stem = NULL;
	int status = EXIT_USER;

	for (size_t i = 0; i < n && !wrong; i++)
		wanted[i] = a->words ? figures_find(fs, a->word[i], &wrong) : &fs->figure[i];
	if (!wrong)
		wrong = store_open(&store, o->db, STORE_READ);
	if (!wrong)
		wrong = choose(store, o->where, fs->folder);
	if (!wrong)
		wrong = settle_out(&d, o, a->words, &stem);
	if (!wrong && mkdtemp(scratch)) {
		d.db = store->db;
		d.scratch = scratch;
		status = draw_all(&d, wanted, n, a->words > 0);
		/* Nothing has data: then each figure says so, and a script finds its files. */
		if (status == EXIT_OK && d.nwritten == 0)
			status = draw_all(&d, wanted, n, true);
		remove_folder(scratch);
	} else if (!wrong) {
		wrong = sentence("%s: cannot make a folder: %s", scratch, strerror(errno));
	}
	if (wrong)
		status = complain(wrong);
	store_close(store);
	for (size_t i = 0; i < d.nwritten; i++)
		free(d.written[i]);
	free(d.written);
	free(stem);
	free(wanted);
	free(scratch);
	return status;
}

static void help(const struct figures *fs)
{
	printf("mvbench plot [NAME ...] [--option=value ...]\n\n"
	       "Draws figures of the finished runs in a database and prints their paths. Without a "
	       "name:\nevery figure that there is data for. Each workload gets a picture of its "
	       "own; "
	       "runs that\ndiffer in nothing but their seed become one curve.\n\nFigures:\n");
	figures_print(fs, stdout);
	printf("\nA figure is a pair NAME.sql, NAME.gp in %s.\n\nOptions:\n", fs->folder);
	option_help(stdout, NULL, plot_options);
}

int command_plot(int argc, char **argv)
{
	struct plot_options o = {.db = NULL};
	struct arguments a = {.words = 0};
	struct figures fs = {.n = 0};
	int status = EXIT_USER;

	option_default(plot_options, &o);
	char *wrong = arguments_read(&a, argc, argv, bare);
	for (size_t i = 0; !wrong && i < a.options; i++)
		if (strcmp(a.option[i].name, "title") == 0) {
			o.summary = !a.option[i].value;
			if (o.summary)
				a.option[i].value = "";
		}
	if (!wrong)
		wrong = arguments_take(&a, plot_options, &o);
	if (!wrong)
		wrong = arguments_refuse(&a, plot_options);
	if (!wrong)
		wrong = figures_init(&fs);
	if (wrong) {
		status = complain(wrong);
	} else if (a.help) {
		help(&fs);
		status = EXIT_OK;
	} else if (o.list) {
		figures_print(&fs, stdout);
		status = EXIT_OK;
	} else {
		status = plot(&o, &a, &fs);
	}
	figures_fini(&fs);
	arguments_free(&a);
	return status;
}
