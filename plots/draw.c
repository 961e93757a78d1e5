/*
 * draw.c - one figure: from its query to a picture.
 *
 * The query of NAME.sql runs over the chosen runs and gives rows of (workload, title, numbers ...).
 * Each workload becomes a picture of its own, each title a block of
 *
 *      =title <tab> column names ...
 *      number <tab> number ...
 *
 * in data.tsv, with two blank lines between blocks. A column `look` is not drawn: it is the block's
 * linetype, the same for a configuration in all figures. gnuplot is started in the folder of that
 * file, without a shell, on style.gp and NAME.gp. It leaves figure.FORMAT there, which
 * is then copied to the requested path. Text from the database or the command line reaches gnuplot
 * in data files only, never as code: see put_text.
 */
#include "plots/plot.h"
#include "results/run/run.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	TEXT_MAX = 96,       /* characters of a name that are shown */
	COMPLAINT_MAX = 2000 /* bytes of gnuplot's output that are kept */
};

/* ---- Programs ------------------------------------------------------------ */

struct program {
	const char *folder;
	char *const *argv;
};

static void exec_program(const void *ctx)
{
	const struct program *p = ctx;
	dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
	setenv("LC_ALL", "C.UTF-8", 1); /* otherwise gnuplot cannot read its own degree sign */
	if (chdir(p->folder) == 0)
		execvp(p->argv[0], p->argv);
	dprintf(STDERR_FILENO, "%s",
		errno == ENOENT && access(p->folder, F_OK) == 0
			? "gnuplot, which draws the figures, is not installed: "
			  "`apt-get install gnuplot-nox` (or `make deps`) installs it"
			: strerror(errno));
}

/* Runs it in the folder; its output goes to complaint. Returns an exit status of ours. */
static int program_run(const char *folder, char *const *argv, char complaint[COMPLAINT_MAX])
{
	const struct program p = {folder, argv};
	int status = child_run(exec_program, &p, complaint, COMPLAINT_MAX);
	CHECK(status != -1, "a child process: %m");
	size_t n = strlen(complaint);
	while (n > 0 && isspace((unsigned char)complaint[n - 1]))
		n--;
	complaint[n] = '\0';
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return EXIT_USER;
	if (WIFSIGNALED(status))
		snprintf(complaint + n, COMPLAINT_MAX - n, "%sended by signal %d", n ? "\n" : "",
			 WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* NULL, or a message. */
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

/* Is there a font with this character? Without one, gnuplot's PNG terminal paints over the picture;
 * an SVG's reader may have such a font. DejaVu has the characters of Europe, and symbols. */
static bool drawable(struct drawing *d, uint32_t code)
{
	char answer[COMPLAINT_MAX] = "";
	if (strcmp(d->format, "png") != 0 || code < 0x530 || (code >= 0x1e00 && code < 0x2750) ||
	    code == 0xfffd)
		return true;
	for (size_t i = 0; i < d->glyphs; i++)
		if (d->glyph[i].code == code)
			return d->glyph[i].have;
	if (d->glyphs == GLYPHS)
		return false;
	char *charset AUTOFREE = sentence(":charset=%x", code);
	char *argv[] = {"fc-list", charset, "family", NULL};
	bool have = program_run(d->scratch, argv, answer) == EXIT_OK && answer[0];
	d->glyph[d->glyphs].code = code;
	d->glyph[d->glyphs++].have = have;
	return have;
}

/*
 * Writes a field of a data file. gnuplot ends fields at quotes and reads backslashes as escapes;
 * both are therefore written as octal escapes. A line's end becomes an arrow, other control
 * characters become spaces, and bytes that are not UTF-8 the replacement character. Returns the
 * width in columns.
 */
static int put_gnuplot_text(struct drawing *d, FILE *f, const char *text)
{
	int wide = 0;
	for (int shown = 0; *text; shown++) {
		const char *from = text;
		uint32_t c = text_character(&text);
		if (shown == TEXT_MAX - 1 && *text) {
			fputs("…", f);
			return wide + 1;
		}
		if (c == 0xfffd) {
			fputs("\xef\xbf\xbd", f);
		} else if (c == '\n') {
			fputs("↵", f);
		} else if (c < ' ' || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c < 0x2010) ||
			   (c >= 0x2028 && c < 0x202f) || (c & 0xfffe) == 0xfffe) {
			fputc(' ', f);
		} else if (c == '"' || c == '\\') {
			fprintf(f, "\\%03o", c);
		} else if (!drawable(d, c)) {
			wide += fprintf(f, "<%04X>", c); /* capital letters are wide */
		} else {
			fwrite(from, 1, (size_t)(text - from), f);
			wide += c >= 0x1100 && (c < 0x1e00 || c >= 0x2e80);
		}
		wide++;
	}
	return wide;
}

/* ---- Data: from a query to files ----------------------------------------- */

struct picture { /* one workload's part of a figure */
	char *workload;
	int blocks, rows; /* rows: of the longest block */
	int more;         /* blocks that are left out, because there is no room for them */
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
}

/* The result of a query for one text or number; heap. */
static char *read_value(const struct drawing *d, const char *sql, const char *param)
{
	char *answer = NULL;
	complain_if(sql_first(d->store, &answer, sql, param ? "t" : "", param));
	return answer ? answer : must(strdup(""));
}

/* The column `look`, after workload and title; 1 = there is none. */
static int look_column(const struct sql *q)
{
	int i = sql_columns(q) - 1;
	while (i > 1 && strcmp(sql_name(q, i), "look") != 0)
		i--;
	return i;
}

static void put_data_row(struct drawing *d, FILE *f, const struct sql *q, int look)
{
	const char *between = "";
	for (int i = 2; i < sql_columns(q); i++) {
		if (i == look)
			continue;
		fputs(between, f);
		between = "\t";
		if (sql_null(q, i))
			fputs("NaN", f);
		else if (sql_is_text(q, i))
			put_gnuplot_text(d, f, sql_text(q, i));
		else
			fprintf(f, "%.9g", sql_real(q, i));
	}
	fputc('\n', f);
}

static bool has_number(const struct sql *q, int look)
{
	int i = 2;
	while (i < sql_columns(q) && (sql_null(q, i) || i == look))
		i++;
	return i < sql_columns(q);
}

/* Where the rows of a query go: FOLDER/data-K.tsv and names-K.tsv for each workload. */
struct sheet {
	FILE *data, *names; /* a line of names: title <tab> look */
	char *title;        /* of the block */
	int rows;           /* in the block */
	int room;           /* blocks that a picture has room for */
	int look;           /* column of the block's linetype; 1 = they are counted */
	bool left_out, bad;
};

static void close_files(struct sheet *t)
{
	t->bad |= (t->data && fclose(t->data)) | (t->names && fclose(t->names));
	t->data = t->names = NULL;
}

/* Begins the next workload's picture. */
static char *put_picture(struct drawing *d, struct sheet *t, struct pictures *ps,
			 const char *workload)
{
	char *data AUTOFREE = sentence("%s/data-%zu.tsv", d->scratch, ps->n);
	char *names AUTOFREE = sentence("%s/names-%zu.tsv", d->scratch, ps->n);
	close_files(t);
	TRY(make_file(d, data, &t->data));
	TRY(make_file(d, names, &t->names));
	APPEND(ps->picture, ps->n, (struct picture){.workload = must(strdup(workload))});
	free(t->title);
	t->title = NULL;
	return NULL;
}

/* Begins a block, if there is room for it and it has a number. */
static void put_block(struct drawing *d, struct sheet *t, struct picture *p, const struct sql *q)
{
	free(t->title);
	t->title = sql_copy(q, 1);
	t->rows = 0;
	t->left_out = p->blocks >= t->room || !has_number(q, t->look);
	p->more += t->left_out;
	if (t->left_out)
		return;
	fputs(p->blocks == 0 ? "=" : "\n\n=", t->data); /* no title is read as a number */
	put_gnuplot_text(d, t->data, t->title);
	for (int i = 3; i < sql_columns(q); i++) {
		if (i == t->look)
			continue;
		fputc('\t', t->data);
		put_gnuplot_text(d, t->data, sql_name(q, i));
	}
	fputc('\n', t->data);
	fputc('=', t->names); /* a line is never empty */
	int wide = put_gnuplot_text(d, t->names, t->title);
	bool given = t->look > 1 && !sql_null(q, t->look);
	fprintf(t->names, "\t%d\n", given ? (int)sql_int(q, t->look) : p->blocks + 1);
	p->widest = wide > p->widest ? wide : p->widest;
	p->blocks++;
}

/* The pictures and blocks are in the order of the rows. */
static char *put_rows(struct drawing *d, struct sql *q, struct pictures *ps)
{
	char *room AUTOFREE = read_value(d, "SELECT blocks FROM room", NULL), *wrong = NULL;
	struct sheet t = {.room = atoi(room), .look = look_column(q)};
	while (!wrong && sql_next(q)) {
		if (!ps->n || strcmp(ps->picture[ps->n - 1].workload, sql_text(q, 0)) != 0)
			wrong = put_picture(d, &t, ps, sql_text(q, 0));
		if (wrong)
			break;
		struct picture *p = &ps->picture[ps->n - 1];
		if (!t.title || strcmp(t.title, sql_text(q, 1)) != 0)
			put_block(d, &t, p, q);
		if (t.left_out)
			continue;
		put_data_row(d, t.data, q, t.look);
		t.rows++;
		p->rows = t.rows > p->rows ? t.rows : p->rows;
	}
	free(t.title);
	close_files(&t);
	if (!wrong && t.bad)
		wrong = sentence("%s: cannot write: %s", d->scratch, strerror(errno));
	return wrong;
}

static char *figure_query(struct drawing *d, const struct figure *f, struct pictures *ps)
{
	char *path AUTOFREE = sentence("%s/%s.sql", f->folder, f->name);
	char *text AUTOFREE = text_read(path), *sql AUTOFREE = text ? sql_medians(text) : NULL;
	bool asked = false;
	if (!sql)
		return sentence("%s: %s", path, strerror(errno));
	for (const char *at = sql; *at;) {
		struct sql q AUTODONE = sql_part(d->store, &at);
		int columns = sql_columns(&q);
		asked |= columns > 0;
		if (columns > 0 && columns < 3)
			return sentence("%s: a query gives workload, title and at least one number",
					path);
		if (columns > 0 && ps->n == 0)
			TRY(put_rows(d, &q, ps));
		while (columns == 0 && q.stmt && sql_next(&q))
			;
		if (sql_refused(&q))
			return sentence("%s: %s", path, sql_refused(&q));
	}
	return asked ? NULL : sentence("%s: there is no SELECT in it", path);
}

/* Is it a number of an axis, which gnuplot has made TeX already? */
static bool is_tex_number(const char *text, size_t n)
{
	static const char times[] = "\\times";
	bool number = n > 2 && text[0] == '$' && text[n - 1] == '$';
	for (size_t i = 1; number && i + 1 < n; i++) {
		bool product = strncmp(text + i, times, sizeof times - 1) == 0;
		number = product || strchr("0123456789.+-^{} ", text[i]);
		i += product ? sizeof times - 2 : 0;
	}
	return number;
}

/* A line of TikZ. gnuplot puts text into it as it is: here it becomes text that TeX shows and does
 * not obey. Comments, which have a date, are left out. */
static void put_tex(FILE *f, char *line)
{
	static const char node[] = "\\node[gp node";
	char *text = strncmp(line, node, sizeof node - 1) == 0 ? strstr(line, ") {") : NULL;
	char *end = text ? strrchr(line, '}') : NULL;
	if (strncmp(line, "%%", 2) == 0)
		return;
	if (!text || !end || is_tex_number(text + 3, (size_t)(end - text - 3))) {
		fputs(line, f);
		return;
	}
	text += 3;
	fprintf(f, "%.*s", (int)(text - line), line);
	*end = '\0';
	text_tex(f, text);
	fprintf(f, "}%s", end + 1);
}

static void copy_tex(FILE *in, FILE *out)
{
	char *line AUTOFREE = NULL;
	size_t room = 0;
	while (getline(&line, &room, in) > 0)
		put_tex(out, line);
}

static char *copy_file(const char *from, const char *to, bool tex)
{
	char block[65536];
	size_t n;
	FILE *in = fopen(from, "rb");
	struct output out;
	char *wrong = in ? output_open(&out, "", to) : sentence("%s: %s", from, strerror(errno));
	if (!wrong && tex)
		copy_tex(in, out.f);
	while (!wrong && (n = fread(block, 1, sizeof(block), in)) > 0)
		fwrite(block, 1, n, out.f);
	if (!wrong)
		wrong = output_close(&out,
				     ferror(in) ? sentence("%s: %s", from, strerror(errno)) : NULL);
	if (in)
		fclose(in);
	return wrong;
}

/* ---- One figure ---------------------------------------------------------- */

/* The path of a picture. With several workloads it contains the workload's name, as far as the
 * characters are harmless. A number distinguishes paths that would be equal. */
static char *picture_path(const struct drawing *d, const char *name, const char *workload)
{
	char *part AUTOFREE = sentence("%s%s", workload ? "-" : "", workload ? workload : "");
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
	return path;
}

char *figure_heading(struct store *s, const struct figure *f, const char *workload)
{
	static const char accuracy[] = "Test accuracy";
	int64_t loss = 0;
	char *text = must(strndup(f->summary, strcspn(f->summary, ":;(,.")));
	complain_if(sql_number(s, &loss,
			       "SELECT max(is_loss) FROM configuration WHERE workload = ?1", "t",
			       workload));
	if (!loss || strncmp(text, accuracy, sizeof accuracy - 1) != 0)
		return text;
	char *changed = sentence("Test loss%s", text + sizeof accuracy - 1);
	free(text);
	return changed;
}

/* The text around a picture: heading, footnote, the three lines of an empty one, and the name of
 * its intervals. NULL or a message. */
static char *put_picture_words(struct drawing *d, const struct figure *f, const struct picture *p)
{
	char *path AUTOFREE = sentence("%s/words.tsv", d->scratch);
	char *foot AUTOFREE =
		read_value(d, "SELECT text FROM footnote WHERE workload = ?1", p->workload);
	char *left AUTOFREE = sentence("The first %d of %d are shown; --where chooses others. %s",
				       p->blocks, p->blocks + p->more, foot);
	char *finished AUTOFREE = read_value(d, "SELECT count(*) FROM selected", NULL);
	char *heading AUTOFREE =
		d->summary ? figure_heading(d->store, f, p->workload) : must(strdup(d->title));
	char *found AUTOFREE =
		strcmp(finished, "0") == 0
			? sentence("No finished run in this database%s.",
				   d->where ? " matches --where" : "")
			: sentence("%s finished run%s here, but no data for this figure.", finished,
				   strcmp(finished, "1") == 0 ? " is" : "s are");
#define INTERVAL "SELECT text FROM interval_name WHERE (workload = ?1 OR ?1 = '') AND runs = "
	char *interval AUTOFREE = read_value(d, INTERVAL "'ended'", p->workload);
	char *of_times AUTOFREE = read_value(d, INTERVAL "'done'", p->workload);
	char *shared AUTOFREE = read_value(
		d, "SELECT max(shared) FROM configuration WHERE workload = ?1", p->workload);
	char *of AUTOFREE = sentence("%s%s", p->workload, shared);
	const char *line[] = {heading,  of,      p->more ? left : foot,
			      f->needs, found,   d->store->path,
			      interval, of_times};
	FILE *file;
	TRY(make_file(d, path, &file));
	for (size_t i = 0; i < sizeof(line) / sizeof(*line); i++) {
		fputc('=', file);
		put_gnuplot_text(d, file, line[i]);
		fputc('\n', file);
	}
	return fclose(file) ? sentence("%s: cannot write: %s", path, strerror(errno)) : NULL;
}

/* The part of gnuplot's message about this file that says where and why: gnuplot repeats the line,
 * with a mark below, and names the file before. About another file: the whole message. */
static const char *words_of(const char *complaint, const char *gp)
{
	char *before AUTOFREE = sentence("\"%s\" ", gp);
	const char *at = strstr(complaint, before);
	return at ? at + strlen(before) : complaint;
}

/* Removes harmless warnings: about points that are all equal; about a part of a block without
 * points, which --where may cause; and about a key that is wider than the plot, which is possible
 * because ours is below it. Is something left? */
static bool is_warned(char *complaint)
{
	static const char *const harmless[] = {"Warning: empty ", "no valid points",
					       "difficulty fitting plot titles into key"};
	char *all AUTOFREE = must(strdup(complaint)), *rest = all, *line, *to = complaint;
	while ((line = strsep(&rest, "\n"))) {
		bool counts = line[strspn(line, " \t")] != '\0';
		for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
			counts &= !strstr(line, harmless[i]);
		if (counts)
			to += sprintf(to, "%s%s", to > complaint ? "\n" : "", line);
	}
	*to = '\0';
	return to > complaint;
}

/* Draws data-K.tsv, or an explanation when there is no data. */
static int draw_picture(struct drawing *d, const struct figure *f, const struct picture *p,
			size_t k, bool several)
{
	char complaint[COMPLAINT_MAX] = "";
	char *set AUTOFREE = sentence(
		"format = '%s'; data = 'data-%zu.tsv'; names = 'names-%zu.tsv'; "
		"blocks = %d; rows = %d; widest = %d; width_units = %g; width_pt = %g",
		d->format, k, k, p->blocks, p->rows, p->widest, d->width_units, d->width_pt);
	char *style AUTOFREE = sentence("%s/style.gp", d->style);
	char *gp AUTOFREE = sentence("%s/%s.gp", f->folder, f->name);
	char *made AUTOFREE = sentence("%s/figure.%s", d->scratch, d->format);
	char *argv[] = {"gnuplot", "-d", "-e", set, style, p->blocks ? gp : NULL, NULL};
	char *wrong = put_picture_words(d, f, p);
	struct stat st;
	unlink(made);
	int status = wrong ? EXIT_USER : program_run(d->scratch, argv, complaint);
	if (status == EXIT_USER) {
		wrong = wrong ? wrong : must(strdup(complaint));
	} else if (status != EXIT_OK || stat(made, &st) != 0 || st.st_size == 0) {
		status = EXIT_FAILED;
		wrong = sentence("%s: gnuplot failed: %s", gp,
				 complaint[0] ? words_of(complaint, gp) : "it drew nothing");
	} else if (d->take) {
		d->take(d->ctx, f, p->workload, made);
	} else {
		char *path = picture_path(d, f->name, several && *p->workload ? p->workload : NULL);
		meter_end(d->meter);
		if (is_warned(complaint))
			fprintf(stderr, "mvbench: %s: gnuplot warns: %s\n", gp,
				words_of(complaint, gp));
		wrong = copy_file(made, path, strcmp(d->format, "tex") == 0);
		if (wrong) {
			status = EXIT_USER;
			free(path);
		} else {
			puts(path);
			APPEND(d->written, d->nwritten, path);
		}
	}
	if (wrong)
		meter_end(d->meter);
	complain_if(wrong);
	return status;
}

static int draw_figure(struct drawing *d, const struct figure *f, bool explain)
{
	struct pictures ps ENDS_WITH(pictures_free) = {.n = 0};
	char *kinds AUTOFREE = read_value(d, "SELECT count(DISTINCT workload) FROM selected", NULL);
	/* in a folder, a name does not depend on what other workloads have */
	bool several = !d->one_file && strcmp(kinds, "0") != 0 && strcmp(kinds, "1") != 0;
	char *wrong = figure_query(d, f, &ps);
	int status = EXIT_OK;
	if (wrong) {
		meter_end(d->meter);
		complain(wrong);
		return d->stuck ? EXIT_USER : EXIT_FAILED;
	}
	if (d->one_file && ps.n > 1) {
		meter_end(d->meter);
		fprintf(stderr,
			"mvbench: --out=%s%s: %zu workloads have data for %s, so each has a file "
			"with its name; --where=\"workload='NAME'\" chooses one\n",
			d->out, d->end, ps.n, f->name);
	}
	for (size_t i = 0; i < ps.n && status == EXIT_OK; i++)
		status = draw_picture(d, f, &ps.picture[i], i, several || ps.n > 1);
	if (ps.n == 0 && explain)
		status = draw_picture(d, f, &(struct picture){.workload = ""}, 0, false);
	if (ps.n == 0 && d->named && status == EXIT_OK) {
		meter_end(d->meter);
		fprintf(stderr, "mvbench: %s: there is nothing to draw. %s\n", f->name, f->needs);
		status = EXIT_FAILED;
	}
	return status;
}

int draw_figures(struct drawing *d, const struct figure *const *wanted, size_t n, bool explain)
{
	int first = EXIT_OK;
	char *scratch AUTOREMOVED = NULL, *wrong = folder_temporary("plot", &scratch);
	if (wrong)
		return complain(wrong);
	d->scratch = scratch;
	struct meter meter;
	d->meter = &meter;
	meter_start(&meter, "figure", n);
	for (size_t i = 0; i < n && first != EXIT_USER; i++) {
		int status = draw_figure(d, wanted[i], explain);
		first = first == EXIT_OK || status == EXIT_USER ? status : first;
		meter_step(&meter, i + 1);
	}
	meter_end(&meter);
	d->meter = NULL;
	return first;
}
