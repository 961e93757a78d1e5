/*
 * plot.h - figures: the list (figures.c), drawing one with gnuplot (draw.c), and the data of figure
 * xy (axes.c).
 */
#ifndef PLOT_H
#define PLOT_H

#include "results/db/select.h"
#include "runtime/cli/cli.h"

/* A figure is a pair of files in a folder: NAME.sql gives the data, NAME.gp draws them. */
struct figure {
	char *name, *folder;
	char *summary, *needs; /* the first two comment lines of NAME.sql */
	bool own;              /* in the user's folder */
};

/* The installed and the user's figures, by name. A user's figure replaces an installed one of the
 * same name. */
struct figures {
	char *folder; /* of the installed figures, and of the shared style.sql and style.gp */
	char *own;    /* the user's, which need not exist */
	struct figure *figure;
	size_t n;
};

/* own: the user's folder; NULL or "" = mvbench/plots in $XDG_CONFIG_HOME, or in ~/.config. NULL, or
 * a message: the installed folder is missing, or own is given and cannot be read. figures_fini
 * frees after either. */
char *figures_init(struct figures *fs, const char *own);
void figures_fini(struct figures *fs);
void figures_print(const struct figures *fs, FILE *f); /* one per line */
/* Each installed figure and each of the user's: command_plot's words. */
void figures_each(void (*each)(void *ctx, const struct word *w), void *ctx);
/* NULL, or a message: there is no figure of this name. */
char *figures_find(const struct figures *fs, const char *name, const struct figure **found);

/* ---- Drawing ------------------------------------------------------------- */

enum { GLYPHS = 64 };

struct drawing { /* shared by all figures of one command */
	struct store *store;
	struct meter *meter;          /* its bar is removed before anything is printed */
	const char *style;            /* the folder of style.gp */
	const char *scratch;          /* gnuplot's folder */
	const char *format;           /* png, svg, pdf, eps or tex */
	double width_units, width_pt; /* see style.gp; 0 = any */
	const char *out, *end;        /* a path is OUT/NAME-WORKLOAD.FORMAT, or OUT-WORKLOAD END */
	bool one_file; /* --out names a file: its name stays if there is one picture */
	const char *title;
	bool summary; /* the title is the figure's own */
	bool where;   /* was --where given? */
	bool named;   /* figures were named: it is an error if one has no data */
	struct {
		unsigned code;
		bool have;
	} glyph[GLYPHS]; /* fc-list's answers about unusual characters */
	size_t glyphs;
	char **written;
	size_t nwritten;
	bool stuck; /* gnuplot's folder cannot be written: no figure can be drawn */
	/* Gets each picture's file, which exists during the call only. NULL = the file is kept. */
	void (*take)(void *ctx, const struct figure *f, const char *workload, const char *file);
	void *ctx;
};

/* Draws figures of the runs in the temporary tables of style.sql: one picture for each workload.
 * Prints the paths and stores them in d->written. explain: without data, draws a picture that says
 * why. Prints errors; a bad query does not prevent the other figures. Returns the status of the
 * first that failed, or of the error that prevents all. */
int draw_figures(struct drawing *d, const struct figure *const *wanted, size_t n, bool explain);

/* The first part of the figure's summary; the rest says how. Of a task without accuracy, it names
 * the loss. Heap. */
char *figure_heading(struct store *s, const struct figure *f, const char *workload);

/* ---- Any column against any other ------------------------------------------- */

struct axes {
	const char *x, *y;
	const char *group; /* columns, separated by commas; "" = configurations without x */
	const char *log;   /* auto, none, x, y, xy */
};

/* Fills the tables of figure xy, after plot_choose. NULL, or a message: there is no such column,
 * with the nearest one; or no run has numbers there. */
char *axes_choose(struct store *s, const struct axes *a);

/* ---- Shared with the report page ------------------------------------------- */

/* Reduces run_summary to the selected runs, and adds their names and the tables of style.sql, all
 * in the connection's temporary schema: the file itself is only read. plots: the folder of
 * style.sql. sections: each label of a workload has pictures of its own, if there are not too many.
 * NULL or a message. */
char *plot_choose(struct store *s, const struct select *of, const char *plots, bool sections);

#endif
