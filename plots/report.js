'use strict';
/* A click on a head sorts a table: numbers by data-v, words in natural order, missing values last. */
for (const table of document.querySelectorAll('table.sort')) {
	const body = table.tBodies[0];
	const heads = [...table.tHead.rows[0].cells];
	const first = [...body.rows];
	const key = (row, i) => {
		const cell = row.cells[i];
		return 'v' in cell.dataset ? Number(cell.dataset.v) : cell.textContent.trim();
	};
	const order = (a, b) => typeof a === 'number' && typeof b === 'number' ? (a > b) - (a < b)
		: String(a).localeCompare(String(b), 'en', {numeric: true});
	const sort = i => {
		const numbers = heads[i].classList.contains('n');
		const was = heads[i].getAttribute('aria-sort');
		/* The first click puts the best accuracy or speed-up on top; a third click restores the order. */
		const turns = heads[i].dataset.most ? ['descending', 'ascending'] : ['ascending', 'descending'];
		const now = was ? turns[turns.indexOf(was) + 1] : turns[0];
		const sign = now === 'descending' ? -1 : 1;
		const rows = first.slice();
		const missing = k => k === '' || (numbers && typeof k !== 'number');
		if (now)
			rows.sort((a, b) => {
				const x = key(a, i), y = key(b, i);
				return missing(x) - missing(y) || (missing(x) ? 0 : sign * order(x, y));
			});
		for (const head of heads)
			head.removeAttribute('aria-sort');
		if (now)
			heads[i].setAttribute('aria-sort', now);
		body.append(...rows);
	};
	heads.forEach((head, i) => {
		const button = document.createElement('button');
		button.type = 'button';
		button.append(...head.childNodes);
		button.addEventListener('click', () => sort(i));
		head.append(button);
	});
}

for (const box of document.querySelectorAll('.command')) {
	const pre = box.querySelector('pre');
	const button = document.createElement('button');
	const say = text => {
		button.textContent = text;
		setTimeout(() => button.textContent = 'Copy', 1500);
	};
	const select = () => {
		getSelection().selectAllChildren(pre);
		say(document.execCommand('copy') ? 'Copied' : 'Selected');
	};
	button.type = 'button';
	button.textContent = 'Copy';
	button.addEventListener('click', () => {
		if (navigator.clipboard)
			navigator.clipboard.writeText(pre.textContent).then(() => say('Copied'), select);
		else
			select();
	});
	box.append(button);
}

const figures = document.querySelectorAll('figure');
for (const figure of figures) {
	const turn = () => figure.classList.toggle('large');
	figure.tabIndex = 0;
	figure.addEventListener('click', turn);
	figure.addEventListener('keydown', event => {
		if (event.key === 'Enter')
			turn();
	});
}

/* A table that is wider than its box becomes cards, whose values need the names of their columns. */
const tables = [...document.querySelectorAll('.scroll table')];
const fit = () => {
	const seen = tables.filter(table => !table.closest('details:not([open])'));
	for (const table of seen)
		table.classList.remove('cards');
	for (const table of seen.filter(table => table.offsetWidth > table.parentNode.clientWidth)) {
		const heads = [...table.tHead.rows[0].cells].map(head => head.textContent);
		for (const row of table.tBodies[0].rows)
			heads.forEach((head, i) => row.cells[i].dataset.head = head);
		table.classList.add('cards');
	}
	for (const figure of figures)
		figure.classList.toggle('scrolls', figure.scrollWidth > figure.clientWidth);
};
addEventListener('resize', fit);
addEventListener('toggle', fit, true);
fit();

/* A link to a configuration opens it; a printout shows all. */
const details = [...document.querySelectorAll('details')];
const open = () => {
	const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
	if (target && target.tagName === 'DETAILS')
		target.open = true;
};
let closed = [];
addEventListener('hashchange', open);
addEventListener('beforeprint', () => {
	closed = details.filter(d => !d.open);
	for (const d of closed)
		d.open = true;
});
addEventListener('afterprint', () => {
	for (const d of closed)
		d.open = false;
});
open();
