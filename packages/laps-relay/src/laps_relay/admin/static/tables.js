// Tables of rows that are asked for again and again: columns are [title, key or function, kind].
//
// Everything that came over the network goes into textContent or into an encoded URL, never into
// markup.

// Words for numbers

const whole = new Intl.NumberFormat('en');

function scaled(value, units) {
  let index = 0;
  while (value >= 1000 && index < units.length - 1) {
    value /= 1000;
    index += 1;
  }
  return `${value >= 100 || index === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[index]}`;
}

export const show = {
  text: (value) => String(value ?? '-'),
  count: (value) => (typeof value === 'number' ? whole.format(value) : '-'),
  bytes: (value) => (typeof value === 'number' ? scaled(value, ['B', 'kB', 'MB', 'GB', 'TB']) : '-'),
  bits: (value) => scaled(value, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s']),
  ms: (value) => (typeof value === 'number' ? `${value.toFixed(1)} ms` : '-'),
  seconds: (value) => (typeof value === 'number' ? `${whole.format(Math.round(value))} s` : '-'),
  yes: (value) => (value ? 'yes' : 'no'),
};

const NUMBERS = new Set(['count', 'bytes', 'ms', 'seconds']);

export function element(tag, text, className = '') {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function cell(row, [, key, kind]) {
  const value = typeof key === 'function' ? key(row) : row[key];
  if (kind === 'link') {
    const made = element('td');
    if (value) {
      const link = element('a', 'play');
      link.href = value;
      link.setAttribute('aria-label', `Play ${row.track}`);
      made.append(link);
    }
    return made;
  }
  if (kind === 'name') return element('td', show.text(value), 'name');
  return element('td', show[kind](value), NUMBERS.has(kind) ? 'number' : '');
}

/** Fill the table with this id; its title stands in the element `<id>-title`. */
export function fillTable(id, columns, rows, total) {
  const table = document.getElementById(id);
  if (!table.tHead) {
    const head = table.createTHead().insertRow();
    for (const [title, , kind] of columns) {
      const made = element('th', title, NUMBERS.has(kind) ? 'number' : '');
      made.scope = 'col';
      head.append(made);
    }
    table.createTBody();
  }
  const made = rows.map((row) => {
    const line = element('tr');
    line.append(...columns.map((column) => cell(row, column)));
    return line;
  });
  if (!made.length) {
    const line = element('tr');
    const none = element('td', 'none', 'muted');
    none.colSpan = columns.length;
    line.append(none);
    made.push(line);
  }
  // A row that has the focus would lose it: the table waits until it is left.
  if (table.contains(document.activeElement)) return;
  table.tBodies[0].replaceChildren(...made);
  const title = document.getElementById(`${id}-title`);
  title.dataset.name ??= title.textContent;
  title.textContent =
    `${title.dataset.name} (${total > rows.length ? `${rows.length} of ` : ''}${total})`;
}

/** Do something for ever; `failed` is told what went wrong. */
export async function everySoOften(work, milliseconds, failed) {
  for (;;) {
    try {
      await work();
    } catch (error) {
      failed(error instanceof TypeError ? 'the relay does not answer' : error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
  }
}
