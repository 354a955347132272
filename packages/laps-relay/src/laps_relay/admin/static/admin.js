// What the pages ask of the admin. Where it wants a token, the page asks its reader for it.
//
// The pages themselves hold no data and come without a token. The token stays in this tab's
// sessionStorage and travels only in the Authorization header, never in an address.

const KEY = 'laps-admin-token';

let typing = null;  // resolves when a token was typed; one for all that wait

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function askReader(wrong) {
  typing ??= new Promise((resolve) => {
    const input = element('input', {type: 'password', required: true, autocomplete: 'off'});
    input.pattern = '[!-~]+';  // what a header can carry
    const form = element(
      'form', {id: 'access'},
      element('label', {}, "The admin's token", input),
      element('button', {type: 'submit', textContent: 'Use it'}),
      element('p', {className: 'bad', textContent: wrong ? 'That was not the right one.' : ''}));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value);
      form.remove();
      typing = null;
      resolve();
    });
    document.querySelector('main').prepend(form);
    input.focus();
  });
  return typing;
}

/** Fetch from the admin, with the token if one is known; waits for the reader if one is needed. */
export async function ask(path) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = token === null ? {} : {Authorization: `Bearer ${token}`};
    const answer = await fetch(path, {headers});
    if (answer.ok) return answer;
    if (answer.status !== 401) throw new Error(`${path}: status ${answer.status}`);
    // Somebody else may have asked and got an answer meanwhile.
    if (token === sessionStorage.getItem(KEY)) await askReader(token !== null);
  }
}

/** The data of server-sent events, as they come. EventSource could not send the token. */
export async function* events(path) {
  const reader = (await ask(path)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (text + value).split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      const line = part.split('\n').find((each) => each.startsWith('data: '));
      if (line) yield JSON.parse(line.slice('data: '.length));
    }
  }
}

/** Links to data work with a token too: a plain link cannot carry it. */
export function openWithToken(link) {
  link.addEventListener('click', async (event) => {
    if (sessionStorage.getItem(KEY) === null) return;
    event.preventDefault();
    const text = await (await ask(link.href)).text();
    window.location.assign(URL.createObjectURL(new Blob([text], {type: 'text/plain'})));
  });
}
