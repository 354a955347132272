// MoQT for a subscriber in a browser: drafts 16 and 18, and only what a player needs of them.
//
// (16, n) and (18, n) name sections of moq-transport-16 and moq-transport-18. Integers are Numbers
// where they are safe and BigInts above that; an integer in a message may have 64 bits.

export const PROTOCOLS = ['moqt-18', 'moqt-16'];  // as WebTransport protocols, preferred first

export const CAPTURE_TIMESTAMP = 0x14c50;  // an object extension: microseconds since the Unix epoch
const MAX_OBJECT = 16 * 1024 * 1024;
const MAX_EXTENSIONS = 128 * 1024;

export const MESSAGE = {
  SUBSCRIBE: 0x3, SUBSCRIBE_OK: 0x4, REQUEST_ERROR: 0x5, UNSUBSCRIBE: 0xa, PUBLISH_DONE: 0xb,
  GOAWAY: 0x10, CLIENT_SETUP: 0x20, SERVER_SETUP: 0x21, SETUP: 0x2f00,
};
const OPTION_IMPLEMENTATION = 0x7;
const PARAMETER = {TOKEN: 0x3, SUBSCRIBER_PRIORITY: 0x20, SUBSCRIPTION_FILTER: 0x21};
export const FILTER = {NEXT_GROUP: 0x1, LARGEST_OBJECT: 0x2};
const IMMUTABLE_BLOCK = 0xb;
const TOKEN_BY_VALUE = 0x3, TOKEN_TYPE_CAT = 0x1;

/** What the relay sent cannot be read, or was not allowed. */
export class ProtocolError extends Error {}

/** More bytes are needed, at least `needed`: not a fault. */
export class Incomplete extends Error {
  constructor(needed) {
    super(`${needed} more bytes are needed`);
    this.needed = Number(needed);
  }
}

// Integers

const small = (value) => (value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value);

/** QUIC varints (RFC 9000, 16) in draft 16; in draft 18 leading ones count the bytes (18, 1.4.1). */
export function encodeInteger(draft, number) {
  let value = BigInt(number);
  if (value < 0n || value >= 1n << (draft === 16 ? 62n : 64n)) {
    throw new RangeError(`${number} does not fit an integer of draft ${draft}`);
  }
  let size, prefix;
  if (draft === 16) {
    const power = [6n, 14n, 30n, 62n].findIndex((bits) => value < 1n << bits);
    size = 1 << power;
    prefix = power << 6;
  } else {
    size = 1;
    while (size < 9 && value >= 1n << BigInt(7 * size)) size += 1;
    prefix = (0xff00 >> (size - 1)) & 0xff;  // size - 1 ones, then zeros
  }
  const bytes = new Uint8Array(size);
  for (let i = size - 1; i >= 0; i -= 1) {
    bytes[i] = Number(value & 0xffn);
    value >>= 8n;
  }
  bytes[0] |= prefix;
  return bytes;
}

/** Reads fields one after the other; throws Incomplete at the end of the bytes. */
export class Reader {
  constructor(draft, bytes, pos = 0) {
    this.draft = draft;
    this.bytes = bytes;
    this.pos = pos;
  }

  get left() {
    return this.bytes.length - this.pos;
  }

  take(size) {
    if (size > this.left) throw new Incomplete(BigInt(size) - BigInt(this.left));
    this.pos += Number(size);
    return this.bytes.subarray(this.pos - Number(size), this.pos);
  }

  u8() {
    return this.take(1)[0];
  }

  u16() {
    const [high, low] = this.take(2);
    return high << 8 | low;
  }

  integer() {
    const start = this.pos;
    const first = this.u8();
    let size, mask;
    if (this.draft === 16) {
      size = 1 << (first >> 6);
      mask = 0x3f;
    } else {
      size = first === 0xff ? 9 : Math.clz32(~(first << 24)) + 1;
      mask = size >= 8 ? 0 : 0xff >> size;
    }
    if (size - 1 > this.left) {
      const missing = size - 1 - this.left;
      this.pos = start;
      throw new Incomplete(missing);
    }
    let value = BigInt(first & mask);
    for (const byte of this.take(size - 1)) value = value << 8n | BigInt(byte);
    return small(value);
  }

  prefixed() {
    return this.take(this.integer());
  }

  text() {
    return new TextDecoder().decode(this.prefixed());
  }
}

export function concat(...parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let pos = 0;
  for (const part of parts) {
    all.set(part, pos);
    pos += part.length;
  }
  return all;
}

// Control messages: type, length in 16 bits, body (16, 9) (18, 10)

function message(draft, type, ...body) {
  const bytes = concat(...body);
  if (bytes.length > 0xffff) throw new RangeError('a message has at most 65535 bytes');
  const length = Uint8Array.of(bytes.length >> 8, bytes.length & 0xff);
  return concat(encodeInteger(draft, type), length, bytes);
}

export const utf8 = (text) => new TextEncoder().encode(text);
const prefixed = (draft, bytes) => concat(encodeInteger(draft, bytes.length), bytes);

/** CLIENT_SETUP with counted parameters (16, 9.3), or SETUP with options to its end (18, 10.3). */
export function encodeSetup(draft, implementation) {
  const option = concat(
    encodeInteger(draft, OPTION_IMPLEMENTATION), prefixed(draft, utf8(implementation)));
  return draft === 16
    ? message(16, MESSAGE.CLIENT_SETUP, encodeInteger(16, 1), option)
    : message(18, MESSAGE.SETUP, option);
}

/**
 * SUBSCRIBE (16, 9.9) (18, 10.7). `namespace` is an array of Uint8Arrays, `name` a Uint8Array.
 * Parameter types are deltas in both drafts; the priority is a varint in 16 and a byte in 18.
 */
export function encodeSubscribe(draft, requestId, namespace, name, {filter, priority, token} = {}) {
  const integer = (value) => encodeInteger(draft, value);
  const parameters = [];
  if (token) {  // by value (16, 9.2.2.1) (18, 10.2.2)
    const body = concat(integer(TOKEN_BY_VALUE), integer(TOKEN_TYPE_CAT), token);
    parameters.push([PARAMETER.TOKEN, prefixed(draft, body)]);
  }
  if (priority !== undefined) {
    const value = draft === 16 ? integer(priority) : Uint8Array.of(priority);
    parameters.push([PARAMETER.SUBSCRIBER_PRIORITY, value]);
  }
  parameters.push(
    [PARAMETER.SUBSCRIPTION_FILTER, prefixed(draft, integer(filter ?? FILTER.LARGEST_OBJECT))]);
  const parts = [integer(parameters.length)];
  let previous = 0;
  for (const [type, value] of parameters) {
    parts.push(integer(type - previous), value);
    previous = type;
  }
  return message(
    draft, MESSAGE.SUBSCRIBE, integer(requestId), integer(namespace.length),
    ...namespace.map((field) => prefixed(draft, field)), prefixed(draft, name), ...parts);
}

/** UNSUBSCRIBE (16, 9.12); in draft 18 the request's stream is reset instead. */
export function encodeUnsubscribe(requestId) {
  return message(16, MESSAGE.UNSUBSCRIBE, encodeInteger(16, requestId));
}

/** The next message on a control or request stream; moves `reader` behind it. */
export function readMessage(reader) {
  const start = reader.pos;
  let type, body;
  try {
    type = reader.integer();
    body = new Reader(reader.draft, reader.take(reader.u16()));
  } catch (error) {
    reader.pos = start;
    throw error;
  }
  try {
    return readBody(reader.draft, type, body);
  } catch (error) {
    if (error instanceof Incomplete) throw new ProtocolError(`message ${type} is cut short`);
    throw error;
  }
}

function readBody(draft, type, body) {
  // Draft 16 names the request that is answered; in draft 18 it is the stream's.
  const requestId = () => (draft === 16 ? body.integer() : null);
  switch (type) {
    case MESSAGE.SERVER_SETUP:
    case MESSAGE.SETUP:
      return {type: 'SETUP'};  // its options say nothing that a player needs
    case MESSAGE.SUBSCRIBE_OK:  // (16, 9.10) (18, 10.8)
      return {type: 'SUBSCRIBE_OK', requestId: requestId(), trackAlias: body.integer()};
    case MESSAGE.REQUEST_ERROR: {  // (16, 9.8) (18, 10.6)
      const id = requestId();
      const code = body.integer();
      body.integer();  // when to try again
      return {type: 'REQUEST_ERROR', requestId: id, code, reason: body.text()};
    }
    case MESSAGE.PUBLISH_DONE: {  // (16, 9.15) (18, 10.11)
      const id = requestId();
      const code = body.integer();
      body.integer();  // how many streams there were
      return {type: 'PUBLISH_DONE', requestId: id, code, reason: body.text()};
    }
    case MESSAGE.GOAWAY:
      return {type: 'GOAWAY', uri: body.text()};
    default:
      return {type: `0x${type.toString(16)}`};
  }
}

// Objects

/** Key-value pairs: types are deltas, even ones have an integer, odd ones bytes (16, 1.4.2). */
export function readPairs(draft, bytes) {
  const reader = new Reader(draft, bytes);
  const pairs = [];
  let type = 0n;
  while (reader.left > 0) {
    type += BigInt(reader.integer());
    pairs.push([small(type), type % 2n ? reader.prefixed() : reader.integer()]);
  }
  return pairs;
}

/** When an object was captured, in microseconds since the epoch; null if it does not say. */
export function captureTime(draft, extensions) {
  try {
    for (const [type, value] of readPairs(draft, extensions)) {
      if (type === CAPTURE_TIMESTAMP) return Number(value);
      if (type === IMMUTABLE_BLOCK) {
        const inner = captureTime(draft, value);
        if (inner !== null) return inner;
      }
    }
  } catch (error) {
    if (!(error instanceof Incomplete)) throw error;
  }
  return null;
}

/** Whether the first integer of a stream begins a subgroup; draft 18 has one more bit. */
export const isSubgroup = (draft, type) =>
  type < 0x80 && (type & ~(draft === 16 ? 0x2f : 0x6f)) === 0x10;

/** Reads a subgroup stream (16, 10.4.2) (18, 11.4.2): chunks in, whole objects out. */
export class SubgroupParser {
  #held = [];  // chunks that are not read yet: joined only when they are enough
  #size = 0;
  #needed = 0;
  #header = null;
  #objectId = -1n;

  constructor(draft) {
    this.draft = draft;
  }

  /** Takes the next bytes of the stream and gives the objects that became whole. */
  feed(chunk) {
    this.#held.push(chunk);
    this.#size += chunk.length;
    if (this.#size < this.#needed) return [];
    const reader = new Reader(
      this.draft, this.#held.length === 1 ? chunk : concat(...this.#held));
    const objects = [];
    let done = 0;
    this.#needed = 0;
    try {
      if (this.#header === null) {
        this.#header = this.#readHeader(reader);
        done = reader.pos;
      }
      while (reader.left > 0) {
        objects.push(this.#readObject(reader));
        done = reader.pos;
      }
    } catch (error) {
      if (!(error instanceof Incomplete)) throw error;
      this.#needed = reader.bytes.length - done + error.needed;
    }
    this.#held = [reader.bytes.slice(done)];
    this.#size = this.#held[0].length;
    return objects;
  }

  #readHeader(reader) {
    const type = reader.integer();
    if (!isSubgroup(this.draft, type) || (type & 0x6) === 0x6) {
      throw new ProtocolError(`${type} does not begin a subgroup`);
    }
    const header = {
      trackAlias: reader.integer(), group: reader.integer(), extensions: (type & 0x1) !== 0,
      subgroup: 0,
    };
    const mode = type & 0x6;  // 0: it is 0, 2: the first object's id, 4: here
    if (mode === 0x4) header.subgroup = reader.integer();
    else if (mode === 0x2) header.subgroup = null;
    if (!(type & 0x20)) reader.u8();  // the publisher's priority
    return header;
  }

  #readObject(reader) {
    const header = this.#header;
    const id = this.#objectId + 1n + BigInt(reader.integer());
    let extensions = new Uint8Array();
    if (header.extensions) {
      const size = reader.integer();
      if (size > MAX_EXTENSIONS) throw new ProtocolError(`${size} bytes of extensions`);
      extensions = reader.take(size);
    }
    const length = reader.integer();
    if (length > MAX_OBJECT) throw new ProtocolError(`an object of ${length} bytes`);
    const status = length === 0 ? reader.integer() : 0;
    const payload = reader.take(length);
    this.#objectId = id;
    if (header.subgroup === null) header.subgroup = small(id);
    return {
      trackAlias: header.trackAlias, group: header.group, subgroup: header.subgroup,
      object: small(id), status, extensions, payload,
    };
  }
}

/** One object in one datagram (16, 10.3.1) (18, 11.3.1); null for padding and what we ignore. */
export function readDatagram(draft, bytes) {
  const reader = new Reader(draft, bytes);
  const type = reader.integer();
  if (type > 0x2f || type & 0x10) return null;
  const trackAlias = reader.integer();
  const group = reader.integer();
  const object = type & 0x4 ? 0 : reader.integer();
  if (!(type & 0x8)) reader.u8();  // the publisher's priority
  const extensions = type & 0x1 ? reader.prefixed() : new Uint8Array();
  const status = type & 0x20 ? reader.integer() : 0;
  return {
    trackAlias, group, subgroup: null, object, status, extensions,
    payload: reader.take(reader.left),
  };
}

// Names

/** Text as bytes; "%2F" stands for the byte 0x2f, so that every byte can be written. */
export function parseName(text) {
  const parts = text.split(/(%[0-9a-fA-F]{2})/);
  return concat(...parts.map((part, index) => (
    index % 2 ? Uint8Array.of(parseInt(part.slice(1), 16)) : utf8(part))));
}

/** "a/b/c" as the fields of a namespace. */
export function parseNamespace(text) {
  return text.split('/').filter((field) => field !== '').map(parseName);
}

/** Draft 18's text form of names (18, 1.5) as ours: "a.2eb-c" is "a%2eb/c". */
export function fromTextForm(text) {
  return text.split('-').map((field) => field.replaceAll('.', '%')).join('/');
}

/** The address of a relay for WebTransport, from the one for any client (moqt://host:port/path). */
export function webUrl(url) {
  const match = /^[a-z]+:\/\/([^/]+)(\/.*)?$/.exec(url ?? '');
  return match ? `https://${match[1]}${match[2] ?? '/'}` : '';
}
