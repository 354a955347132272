// The player page: subscribes to a track over WebTransport and draws what arrives.
//
// What arrives is drawn as an image (JPEG, PNG, SVG in an <img>, where no script of it runs), as
// text, or as a hex dump; text only ever goes into textContent.

import {ask} from './admin.js';
import {FILTER, webUrl} from './moqt.js';
import {Subscriber} from './session.js';

const SAMPLES = 500;  // latencies that percentiles and plot look at
const RATE_WINDOW = 2000;  // milliseconds
const MAX_TEXT = 4096, MAX_DUMP = 512;

const byId = (id) => document.getElementById(id);
const form = byId('form');
let subscriber = null;

// Figures

class Figures {
  objects = 0;
  latencies = [];
  #recent = [];  // [arrival in ms, bytes]

  add(object) {
    this.objects += 1;
    const now = object.received / 1000;
    this.#recent.push([now, object.payload.length]);
    if (object.captured !== null) {
      this.latencies.push((object.received - object.captured) / 1000);
      if (this.latencies.length > SAMPLES) this.latencies.shift();
    }
  }

  /** Objects and bits per second, over the last two seconds. */
  rates() {
    const since = performance.timeOrigin + performance.now() - RATE_WINDOW;
    while (this.#recent.length && this.#recent[0][0] < since) this.#recent.shift();
    const bytes = this.#recent.reduce((sum, [, size]) => sum + size, 0);
    return [this.#recent.length / (RATE_WINDOW / 1000), bytes * 8 / (RATE_WINDOW / 1000)];
  }

  percentile(share) {
    if (!this.latencies.length) return null;
    const sorted = [...this.latencies].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
  }
}

let figures = new Figures();
let latest = null;  // the newest object, until it is drawn
let location_ = '-';

const milliseconds = (value) => (value === null ? 'unknown' : `${value.toFixed(1)} ms`);

function bits(value) {
  for (const unit of ['bit/s', 'kbit/s', 'Mbit/s']) {
    if (value < 1000) return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} Gbit/s`;
}

function showFigures() {
  const [rate, bitrate] = figures.rates();
  const newest = figures.latencies.at(-1) ?? null;
  byId('location').textContent = location_;
  byId('objects').textContent = String(figures.objects);
  byId('rate').textContent = rate.toFixed(1);
  byId('bitrate').textContent = bits(bitrate);
  byId('latency').textContent = milliseconds(newest);
  byId('p50').textContent = milliseconds(figures.percentile(0.5));
  byId('p99').textContent = milliseconds(figures.percentile(0.99));
  plot(byId('plot'), figures.latencies);
}

function plot(canvas, values) {
  const context = canvas.getContext('2d');
  const {width, height} = canvas;
  context.clearRect(0, 0, width, height);
  if (!values.length) return;
  const top = Math.max(1, ...values) * 1.1;
  const color = getComputedStyle(canvas).color;
  context.strokeStyle = context.fillStyle = color;
  context.lineWidth = 2;
  context.beginPath();
  values.forEach((value, index) => {
    const x = width * (index + 1) / SAMPLES;
    const y = height - Math.max(0, value) / top * (height - 20);
    if (index) context.lineTo(x, y);
    else context.moveTo(x, y);
  });
  context.stroke();
  context.font = '14px system-ui, sans-serif';
  context.fillText(`${top.toFixed(1)} ms`, 4, 14);
  const words = `from ${milliseconds(Math.min(...values))} to ${milliseconds(Math.max(...values))}`;
  canvas.setAttribute('aria-label', `Latency of the newest ${values.length} objects: ${words}`);
}

// Payloads

const startsWith = (bytes, ...magic) => magic.every((byte, index) => bytes[index] === byte);

/** The media type of an image, by its first bytes; null if it is none. */
function imageType(bytes) {
  if (startsWith(bytes, 0xff, 0xd8, 0xff)) return 'image/jpeg';
  if (startsWith(bytes, 0x89, 0x50, 0x4e, 0x47)) return 'image/png';
  const head = new TextDecoder().decode(bytes.subarray(0, 512)).trimStart();
  return /^(<\?xml[^>]*>\s*)?(<!--[^]*?-->\s*)*<svg[\s>]/.test(head) ? 'image/svg+xml' : null;
}

/** The payload as text; null if it is not text. */
function asText(bytes) {
  try {
    const text = new TextDecoder('utf-8', {fatal: true}).decode(bytes);
    // eslint-disable-next-line no-control-regex
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

function hexDump(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, MAX_DUMP); at += 16) {
    const row = [...bytes.subarray(at, Math.min(at + 16, MAX_DUMP))];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const chars = row.map((byte) => (byte > 0x1f && byte < 0x7f ? String.fromCharCode(byte) : '.'));
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${chars.join('')}`);
  }
  if (bytes.length > MAX_DUMP) lines.push(`... ${bytes.length} bytes`);
  return lines.join('\n');
}

/** Gives the child of the picture that has this tag: it is kept while the kind stays the same. */
function child(tag) {
  const picture = byId('picture');
  let element = picture.firstElementChild;
  if (element?.localName !== tag || picture.childElementCount !== 1) {
    element = document.createElement(tag);
    picture.replaceChildren(element);
  }
  return element;
}

let decoding = false;

function drawPayload(bytes) {
  const type = imageType(bytes);
  if (type === null) {
    const text = asText(bytes);
    const pre = child('pre');
    pre.dataset.kind = text === null ? 'hex' : 'text';
    pre.textContent = text === null ? hexDump(bytes) : text.slice(0, MAX_TEXT);
    return;
  }
  if (decoding) return;  // the picture before it is not ready: this one is skipped
  const image = child('img');
  const url = URL.createObjectURL(new Blob([bytes], {type}));
  decoding = true;
  const done = (failed) => {
    decoding = false;
    URL.revokeObjectURL(url);
    image.dataset.kind = failed ? 'broken' : type;
  };
  image.onload = () => done(false);
  image.onerror = () => done(true);
  image.alt = `Object ${location_} of the track`;
  image.src = url;
}

let scheduled = false;

/** Everything is drawn at most once a frame, whatever the rate of objects is. */
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    if (latest) drawPayload(latest.payload);
    latest = null;
    showFigures();
  });
}

// Subscribing

async function certificateHash() {
  const answer = await ask('/certificate.sha256');
  const digits = (await answer.text()).trim().replaceAll(':', '');
  if (!/^[0-9a-fA-F]{64}$/.test(digits)) throw new Error('no certificate hash: not 64 hex digits');
  return Uint8Array.from(digits.match(/../g), (byte) => parseInt(byte, 16));
}

function base64url(text) {
  const plain = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(plain, (char) => char.charCodeAt(0));
}

function showError(text) {
  byId('error').textContent = text;
  byId('error').hidden = !text;
}

async function play() {
  subscriber?.stop();
  figures = new Figures();
  location_ = '-';
  latest = null;
  showError('');
  showFigures();
  const fields = new FormData(form);
  const current = subscriber = new Subscriber({
    state: (text) => {
      if (current !== subscriber) return;
      byId('state').textContent = text;
      byId('protocol').textContent = current.draft ? `moqt-${current.draft}` : '-';
      byId('stop').disabled = text === 'stopped';
    },
    object: (object) => {
      if (current !== subscriber) return;
      figures.add(object);
      location_ = `${object.group} / ${object.object}`;
      if (object.payload.length) latest = object;
      schedule();
    },
    error: (text) => {
      if (current === subscriber) showError(text);
    },
  });
  try {
    const token = fields.get('token').trim();
    await current.run({
      url: fields.get('url'),
      namespace: fields.get('namespace'),
      name: fields.get('name'),
      filter: fields.get('start') === 'group' ? FILTER.NEXT_GROUP : FILTER.LARGEST_OBJECT,
      token: token ? base64url(token) : undefined,
      certificateHash: fields.get('pinned') ? await certificateHash() : undefined,
    });
  } catch (error) {
    showError(error.message);
    current.stop();
  }
}

/** The relay beside this page, if it tells where it listens. */
async function suggestUrl() {
  try {
    return webUrl((await (await ask('/v1/info')).json()).url);
  } catch {
    return '';
  }
}

async function start() {
  const given = new URLSearchParams(window.location.search);
  for (const name of ['url', 'namespace', 'name', 'token', 'start']) {
    if (given.has(name)) form.elements[name].value = given.get(name);
  }
  if (given.get('pinned') === '0') form.elements.pinned.checked = false;
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    play();
  });
  byId('stop').addEventListener('click', () => subscriber?.stop());
  setInterval(() => subscriber && schedule(), 1000);  // rates fall when nothing arrives
  if (!('WebTransport' in window)) {
    showError('This browser has no WebTransport, or the page is not from a secure origin.');
    byId('play').disabled = true;
    return;
  }
  if (!given.has('url')) form.elements.url.value = await suggestUrl();
  if (form.elements.url.value && given.has('namespace')) play();
}

start();
