// The network as one relay sees it: /v1/network/*, asked for every two seconds.

import {ask, openWithToken} from './admin.js';
import {element, everySoOften, fillTable, show} from './tables.js';

const byId = (id) => document.getElementById(id);
const list = (items) => (items ?? []).join(', ') || '-';

const COLUMNS = {
  peers: [
    ['Session', 'session', 'text'],
    ['Node', 'node', 'name'],
    ['Type', 'type', 'text'],
    ['Region', 'region', 'text'],
    ['Protocol', 'alpn', 'text'],
    ['Control', 'control', 'yes'],
    ['Data', (row) => (row.sends_data
      ? (row.receives_data ? 'both ways' : 'to it') : (row.receives_data ? 'from it' : 'none')), 'text'],
    ['Dialled', (row) => (row.dialled ? (row.on_demand ? 'on demand' : 'by us') : 'by it'), 'text'],
    ['Age', 'age_seconds', 'seconds'],
    ['Round trip', 'srtt_ms', 'ms'],
    ['Sent', 'bytes_sent', 'bytes'],
    ['Received', 'bytes_received', 'bytes'],
    ['Queued', 'queued_bytes', 'bytes'],
    ['Leaving', 'leaving', 'yes'],
  ],
  contacts: [
    ['Contact', 'contact', 'name'],
    ['State', 'state', 'text'],
    ['Session', (row) => row.session ?? '-', 'text'],
    ['Dialled', (row) => (row.on_demand ? 'on demand' : 'by configuration'), 'text'],
    ['Failures', 'failures', 'count'],
    ['Next try', 'next_try_seconds', 'seconds'],
    ['Last reason', (row) => row.reason || '-', 'text'],
  ],
  nodes: [
    ['Node', 'node', 'name'],
    ['Type', 'type', 'text'],
    ['Region', 'region', 'text'],
    ['Load', (row) => `${row.load_class} ${(row.load * 100).toFixed(0)} %`, 'text'],
    ['Next hop', 'next_hop', 'name'],
    ['Hops', 'hops', 'count'],
    ['Cost', 'cost_ms', 'ms'],
    ['Round trip', 'rtt_ms', 'ms'],
    ['Way', (row) => (row.path ?? []).join(' > ') || '-', 'name'],
    ['Ways', 'ways', 'count'],
    ['Contacts', (row) => list(row.contacts), 'name'],
  ],
  announces: [
    ['Source', 'source', 'name'],
    ['Kind', 'kind', 'text'],
    ['Name', (row) => row.name ?? row.key, 'name'],
    ['Session', (row) => row.session ?? 'our own', 'text'],
    ['Stamp', (row) => `${row.epoch} / ${row.sequence}`, 'text'],
  ],
  subscribes: [
    ['Source', 'source', 'name'],
    ['Track', (row) => row.name ?? row.key, 'name'],
    ['Session', (row) => row.session ?? 'our own', 'text'],
    ['Stamp', (row) => `${row.epoch} / ${row.sequence}`, 'text'],
  ],
  sets: [
    ['Session', 'session', 'text'],
    ['SNS', 'sns_id', 'text'],
    ['Direction', 'direction', 'text'],
    ['Targets', (row) => list(row.targets), 'name'],
    ['Class', (row) => row.scope || '-', 'text'],
    ['Hops', 'hops', 'count'],
    ['Track', (row) => row.key ?? '-', 'name'],
    ['Retiring', 'retiring', 'yes'],
  ],
  fib: [
    ['From', (row) => (row.session ? `session ${row.session}, SNS ${row.set_id}` : 'our clients'), 'text'],
    ['To', (row) => list((row.egress ?? []).map((to) => `session ${to.session}, SNS ${to.sns_id}`)), 'text'],
    ['Our clients', 'local', 'yes'],
    ['Track', (row) => row.key ?? '-', 'name'],
    ['Streams', 'streams', 'count'],
    ['Datagrams', 'datagrams', 'count'],
    ['Bytes in', 'bytes_in', 'bytes'],
    ['Bytes out', 'bytes_out', 'bytes'],
  ],
};

function setState(text, good) {
  byId('state').textContent = text;
  byId('state').className = good ? 'good' : 'bad';
}

async function refresh() {
  for (const [table, columns] of Object.entries(COLUMNS)) {
    const page = await (await ask(`/v1/network/${table}`)).json();
    fillTable(table, columns, page.items, page.total);
  }
  setState('live', true);
}

async function refreshInfo() {
  const info = await (await ask('/v1/info')).json();
  byId('info').textContent = [
    `laps-relay ${info.version}`, `node ${info.node_id}`, info.region && `region ${info.region}`,
    info.draining && 'draining',
  ].filter(Boolean).join(' · ');
  const policy = await (await ask('/v1/network/policy')).json();
  byId('policy-file').textContent = policy.file || 'no policy file';
  byId('policy').replaceChildren(...policy.rules.map((rule) => element('li', show.text(rule))));
}

// A relay that stands alone answers 404: say so in words.
const failed = (text) => setState(
  text.endsWith('status 404') ? 'this relay stands alone: it has no peers' : text, false);
everySoOften(refreshInfo, 10000, failed);
everySoOften(refresh, 2000, failed);
document.querySelectorAll('a.data').forEach(openWithToken);
