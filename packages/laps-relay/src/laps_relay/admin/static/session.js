// A MoQT session over WebTransport that subscribes to one track, in draft 16 or 18.

import {
  Incomplete, MESSAGE, PROTOCOLS, ProtocolError, Reader, SubgroupParser, captureTime, concat,
  encodeSetup, encodeSubscribe, encodeUnsubscribe, isSubgroup, parseName, parseNamespace,
  readDatagram, readMessage,
} from './moqt.js';

const MAX_EARLY_OBJECTS = 256;

/** Subscribes to one track. `on` has: state(text), object(object), error(text). */
export class Subscriber {
  #transport = null;
  #on;
  #draft = 0;
  #stopped = false;
  #alias = null;
  #early = [];
  #request = null;

  constructor(on) {
    this.#on = on;
  }

  get draft() {
    return this.#draft;
  }

  /** Runs until the track, the session or `stop` ends it. */
  async run({url, namespace, name, token, filter, certificateHash}) {
    const options = {protocols: PROTOCOLS};
    if (certificateHash) {
      options.serverCertificateHashes = [{algorithm: 'sha-256', value: certificateHash}];
    }
    this.#on.state('connecting');
    try {
      this.#transport = new WebTransport(url, options);
      await this.#transport.ready;
      const protocol = this.#transport.protocol;
      this.#draft = {'moqt-18': 18, 'moqt-16': 16}[protocol] ?? 0;
      if (!this.#draft) {
        throw new ProtocolError(`the relay chose no protocol of ours (${PROTOCOLS.join(', ')})`);
      }
      this.#on.state(`connected with ${protocol}`);
      this.#background(this.#readStreams());
      this.#background(this.#readDatagrams());
      const subscribe = encodeSubscribe(
        this.#draft, 0, parseNamespace(namespace), parseName(name), {filter, token, priority: 128});
      const ended = this.#draft === 16
        ? await this.#converse16(subscribe)
        : await this.#converse18(subscribe);
      this.#on.state(ended);
      await this.#transport.closed;
      this.#on.state('closed');
    } catch (error) {
      if (!this.#stopped) this.#on.error(describe(error));
    } finally {
      this.stop();
    }
  }

  /** Ends the subscription and the session. */
  stop() {
    if (this.#stopped) return;
    this.#stopped = true;
    try {
      if (this.#draft === 16) this.#request?.write(encodeUnsubscribe(0)).catch(() => {});
      this.#transport?.close({closeCode: 0, reason: ''});
    } catch {
      // it was not open yet, or is closed already
    }
    this.#on.state('stopped');
  }

  #background(work) {
    work.catch((error) => {
      if (!this.#stopped && error instanceof ProtocolError) {
        this.#on.error(describe(error));
        this.stop();
      }
    });
  }

  /** Draft 16: one bidirectional control stream for everything (16, 3.3). */
  async #converse16(subscribe) {
    const stream = await this.#transport.createBidirectionalStream();
    this.#request = stream.writable.getWriter();
    await this.#request.write(encodeSetup(16, 'laps-player'));
    const messages = readMessages(16, stream.readable);
    const first = await messages.next();
    if (first.done || first.value.type !== 'SETUP') throw new ProtocolError('no SERVER_SETUP');
    this.#on.state('subscribing');
    await this.#request.write(subscribe);
    return this.#answers(messages);
  }

  /** Draft 18: a control stream each way, and a stream for each request (18, 3.3). */
  async #converse18(subscribe) {
    const control = await this.#transport.createUnidirectionalStream();
    await control.getWriter().write(encodeSetup(18, 'laps-player'));
    this.#on.state('subscribing');
    const stream = await this.#transport.createBidirectionalStream();
    this.#request = stream.writable.getWriter();
    await this.#request.write(subscribe);
    return this.#answers(readMessages(18, stream.readable));
  }

  async #answers(messages) {
    for await (const answer of messages) {
      if (answer.type === 'SUBSCRIBE_OK') {
        this.#alias = answer.trackAlias;
        this.#on.state('subscribed');
        const early = this.#early;
        this.#early = [];
        for (const object of early) this.#take(object);
      } else if (answer.type === 'REQUEST_ERROR') {
        throw new ProtocolError(`the relay refused, code ${answer.code}: ${answer.reason}`);
      } else if (answer.type === 'PUBLISH_DONE') {
        return `the publisher is done, code ${answer.code} ${answer.reason}`;
      }
    }
    return 'the relay ended the subscription';
  }

  async #readStreams() {
    for await (const stream of this.#transport.incomingUnidirectionalStreams) {
      this.#background(this.#readStream(stream));
    }
  }

  /** The first integer of a stream says what it is (18, 3.4). */
  async #readStream(stream) {
    const parser = new SubgroupParser(this.#draft);
    const reader = stream.getReader();
    let first = new Uint8Array();
    let known = false;
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      let chunk = value;
      if (!known) {
        chunk = first = concat(first, value);
        let type;
        try {
          type = new Reader(this.#draft, first).integer();
        } catch {
          continue;
        }
        if (!isSubgroup(this.#draft, type)) {  // SETUP, padding: nothing for us in them
          if (type !== MESSAGE.SETUP) await reader.cancel();
          else await drain(reader);
          return;
        }
        known = true;
      }
      for (const object of parser.feed(chunk)) this.#take(object);
    }
  }

  async #readDatagrams() {
    for await (const bytes of this.#transport.datagrams.readable) {
      let object = null;
      try {
        object = readDatagram(this.#draft, bytes);
      } catch (error) {
        if (!(error instanceof Incomplete)) throw error;
      }
      if (object) this.#take(object);
    }
  }

  #take(object) {
    object.received ??= (performance.timeOrigin + performance.now()) * 1000;
    if (this.#alias === null) {  // it overtook SUBSCRIBE_OK
      if (this.#early.length < MAX_EARLY_OBJECTS) this.#early.push(object);
    } else if (object.trackAlias === this.#alias && !this.#stopped) {
      object.captured = captureTime(this.#draft, object.extensions);
      this.#on.object(object);
    }
  }
}

async function drain(reader) {
  while (!(await reader.read()).done);
}

async function* readMessages(draft, readable) {
  let held = new Uint8Array();
  for await (const chunk of readable) {
    const reader = new Reader(draft, concat(held, chunk));
    let done = 0;
    try {
      while (reader.left > 0) {
        yield readMessage(reader);
        done = reader.pos;
      }
    } catch (error) {
      if (!(error instanceof Incomplete)) throw error;
    }
    held = reader.bytes.slice(done);
  }
}

function describe(error) {
  const code = error?.streamErrorCode;
  const text = error?.message || String(error);
  return typeof code === 'number' ? `${text} (stream error code ${code})` : text;
}
