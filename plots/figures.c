/*
 * figures.c - the list of figures: those installed with mvbench, and the user's own.
 */
#include "plots/plot.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The next comment line at the head of a query, without its dashes. */
static char *comment_line(const char **text)
{
	if (strncmp(*text, "--", 2) != 0)
		return must(strdup(""));
	const char *line = *text + 2 + strspn(*text + 2, " \t");
	size_t n = strcspn(line, "\r\n");
	*text = line + n + strspn(line + n, "\r\n");
	return must(strndup(line, n));
}

void figures_fini(struct figures *fs)
{
	for (size_t i = 0; i < fs->n; i++) {
		free(fs->figure[i].name);
		free(fs->figure[i].folder);
		free(fs->figure[i].summary);
		free(fs->figure[i].needs);
	}
	free(fs->figure);
	free(fs->folder);
	free(fs->own);
	*fs = (struct figures){.folder = NULL};
}

static const struct figure *figure_named(const struct figures *fs, const char *name)
{
	size_t i = 0;
	while (i < fs->n && strcmp(fs->figure[i].name, name) != 0)
		i++;
	return i < fs->n ? &fs->figure[i] : NULL;
}

/* Adds the new names in a folder that have both files. False and errno if it cannot be read. */
static bool add_folder(struct figures *fs, const char *folder, bool own)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return false;
	for (struct dirent *e; (e = readdir(dir));) {
		size_t n = strlen(e->d_name);
		if (n < 5 || strcmp(e->d_name + n - 4, ".sql") != 0 || e->d_name[0] == '.' ||
		    strcmp(e->d_name, "style.sql") == 0)
			continue;
		char *name AUTOFREE = must(strndup(e->d_name, n - 4));
		char *sql AUTOFREE = sentence("%s/%s.sql", folder, name);
		char *gp AUTOFREE = sentence("%s/%s.gp", folder, name);
		char *text AUTOFREE = figure_named(fs, name) ? NULL : text_read(sql);
		if (text && access(gp, R_OK) == 0) {
			const char *at = text;
			char *summary = comment_line(&at);
			APPEND(fs->figure, fs->n,
			       (struct figure){must(strdup(name)), must(strdup(folder)), summary,
					       comment_line(&at), own});
		}
	}
	closedir(dir);
	return true;
}

/* The folder of the user's figures, without --figures. */
static char *own_folder(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (config && config[0] == '/') /* the XDG specification says to ignore others */
		return sentence("%s/mvbench/plots", config);
	return sentence("%s/.config/mvbench/plots", home ? home : "");
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct figure *)a)->name, ((const struct figure *)b)->name);
}

char *figures_init(struct figures *fs, const char *own)
{
	bool given = own && own[0];
	*fs = (struct figures){.folder = installed_path("plots")};
	if (given) /* absolute, because gnuplot works in another folder */
		fs->own = realpath(own, NULL);
	if (!fs->own)
		fs->own = given ? must(strdup(own)) : own_folder();
	if (!add_folder(fs, fs->own, true) && given)
		return sentence("--figures=%s: cannot read this folder: %s; give a folder with "
				"NAME.sql and NAME.gp",
				own, strerror(errno));
	if (!fs->folder || !add_folder(fs, fs->folder, false))
		return sentence("the folder `plots` with the figures is missing: it belongs next "
				"to the program's build folder, or in ../share/mvbench");
	if (fs->n)
		qsort(fs->figure, fs->n, sizeof(*fs->figure), by_name);
	return NULL;
}

void figures_print(const struct figures *fs, FILE *f)
{
	size_t wide = 0;
	for (size_t i = 0; i < fs->n; i++)
		wide = strlen(fs->figure[i].name) > wide ? strlen(fs->figure[i].name) : wide;
	for (size_t i = 0; i < fs->n; i++) {
		const struct figure *g = &fs->figure[i];
		fprintf(f, "%-*s  %s", (int)wide, g->name, g->summary);
		if (g->own)
			fprintf(f, "%s(yours: %s)", g->summary[0] ? " " : "", g->folder);
		fputc('\n', f);
	}
}

/* NULL, or a message: only one of a figure's two files can be read, so it is not in the list. */
static char *half(const char *folder, const char *name)
{
	static const char *const end[] = {"sql", "gp"};
	bool have[2];
	if (name[0] == '\0' || strchr(name, '/') || strcmp(name, "style") == 0)
		return NULL;
	for (int i = 0; i < 2; i++) {
		char *path AUTOFREE = sentence("%s/%s.%s", folder, name, end[i]);
		have[i] = access(path, R_OK) == 0;
	}
	if (have[0] == have[1])
		return NULL;
	return sentence("%s: %s has %s.%s, but no %s.%s that can be read next to it", name, folder,
			name, end[have[1]], name, end[have[0]]);
}

char *figures_find(const struct figures *fs, const char *name, const struct figure **found)
{
	const char **names AUTOFREE = must(calloc(fs->n + 1, sizeof(*names)));
	if ((*found = figure_named(fs, name)))
		return NULL;
	TRY(half(fs->own, name));
	for (size_t i = 0; i < fs->n; i++)
		names[i] = fs->figure[i].name;
	return no_such("figure", "", name, names, fs->n, "`mvbench plot --list` names them");
}

void figures_each(void (*each)(void *ctx, const struct word *w), void *ctx)
{
	struct figures fs ENDS_WITH(figures_fini) = {.n = 0};
	char *wrong AUTOFREE = figures_init(&fs, NULL);
	for (size_t i = 0; !wrong && i < fs.n; i++) {
		const struct figure *f = &fs.figure[i];
		char *path AUTOFREE = sentence("%s/%s", f->own ? f->folder : "plots", f->name);
		each(ctx, &(struct word){"figure", f->name, f->summary, f->needs, path});
	}
}
