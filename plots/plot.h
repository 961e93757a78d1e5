/*
 * plot.h - figures: which there are (figures.c), how gnuplot draws one (draw.c), and what the one
 * of any two columns draws (axes.c).
 */
#ifndef PLOT_H
#define PLOT_H

#include "results/db/select.h"

/* A figure is a stem in a folder: NAME.sql says what is drawn, NAME.gp how. */
struct figure {
	char *name, *folder;
	char *summary, *needs; /* the first two comment lines of NAME.sql */
	bool own;              /* out of the user's folder */
};

/* Those that come along and the user's, by name; where both have one, it is the user's. */
struct figures {
	char *folder; /* of those that come along, and of what all share: style.sql and style.gp */
	char *own;    /* the user's, which need not be there */
	struct figure *figure;
	size_t n;
};

/* own: the user's folder; NULL or "" = mvbench/plots in $XDG_CONFIG_HOME, or in ~/.config. NULL, or
 * a sentence: the folder that comes along is missing, or own is given and cannot be read.
 * figures_fini frees after either. */
char *figures_init(struct figures *fs, const char *own);
void figures_fini(struct figures *fs);
void figures_print(const struct figures *fs, FILE *f); /* a line each */
/* Each of the installed and the user's own figures: command_plot's words. */
void figures_each(void (*each)(void *ctx, const struct word *w), void *ctx);
/* NULL, or a sentence: there is none of this name. */
char *figures_find(const struct figures *fs, const char *name, const struct figure **found);

/* ---- Drawing ------------------------------------------------------------- */

enum { GLYPHS = 64 };

struct drawing { /* what all figures of one command share */
	struct store *store;
	const char *style;     /* the folder of style.gp */
	const char *scratch;   /* gnuplot's folder */
	const char *format;    /* png or svg */
	const char *out, *end; /* a path is OUT/NAME-WORKLOAD.png, or OUT-WORKLOAD END */
	const char *title;
	bool summary; /* the title is the figure's own */
	bool where;   /* was there a --where? */
	bool named;   /* figures were asked for by name: of nothing they are no success */
	struct {
		unsigned code;
		bool have;
	} glyph[GLYPHS]; /* what fc-list said of unusual characters */
	size_t glyphs;
	char **written;
	size_t nwritten;
	bool stuck; /* gnuplot's folder cannot be written: no figure can be drawn */
	/* Gets each picture's file, for as long as the call lasts, instead of its being kept. NULL
	 * = it is kept. */
	void (*take)(void *ctx, const struct figure *f, const char *workload, const char *file);
	void *ctx;
};

/* Draws a figure of the runs that the temporary tables of style.sql hold: a picture a workload,
 * whose paths are printed and kept in d->written. explain: one that says why, when there is no
 * data. Returns an exit status, says what is wrong. */
int draw_figure(struct drawing *d, const struct figure *f, bool explain);
/* Several in turn: a bad query does not keep the others from being drawn. Likewise; of the first
 * that failed, or what keeps all from being drawn. */
int draw_figures(struct drawing *d, const struct figure *const *wanted, size_t n, bool explain);

/* ---- Any column against any other ------------------------------------------- */

struct axes {
	const char *x, *y;
	const char *group; /* columns, a comma between two; "" = configurations, but for x */
	const char *log;   /* auto, none, x, y, xy */
};

/* Fills what figure xy draws, after plot_choose. NULL, or a sentence: there is no such column, with
 * the nearest; or no run has numbers there. */
char *axes_choose(struct store *s, const struct axes *a);

/* ---- What the report page takes from `mvbench plot` too -------------------- */

/* Makes run_summary the runs that are selected, their names, and what style.sql derives from them,
 * in the connection's temporary schema: the file itself is only read. plots: the folder of
 * style.sql. NULL or a sentence. */
char *plot_choose(struct store *s, const struct select *of, const char *plots);

#endif
