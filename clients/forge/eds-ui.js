/**
 * Collects what people do in the pages of a Forge app, and passes it to the app's resolver. Copy
 * this file into your front end.
 *
 *     import { invoke } from '@forge/bridge';
 *     const track = createTracker(invoke);
 *     track('Report_Created');
 *
 * The browser sends names, times, and ids of events. It never has the key, and it cannot say whose
 * events they are: the platform does.
 */

const WAIT_MS = 1_000;
const MOST_OF_A_CALL = 20;
// While the resolver cannot be reached, the oldest go first.
const MOST_WAITING = 200;

/**
 * Returns `track(name)`, which never throws.
 *
 * @param {Function} invoke of `@forge/bridge`
 * @param {string} [resolver] the name of the resolver
 */
export function createTracker(invoke, resolver = 'eds') {
  let waiting = [];
  let timer;
  let isSending = false;

  const send = async () => {
    clearTimeout(timer);
    timer = undefined;
    if (isSending || waiting.length === 0) {
      return;
    }
    isSending = true;
    const sent = waiting.slice(0, MOST_OF_A_CALL);
    try {
      await invoke(resolver, { events: sent });
      // Ids, because the oldest may be gone meanwhile.
      const ids = new Set(sent.map(({ id }) => id));
      waiting = waiting.filter(({ id }) => !ids.has(id));
    } catch {
      // They stay, and go with the next call: their ids make repeats harmless.
    }
    isSending = false;
    if (waiting.length) {
      timer ??= setTimeout(send, WAIT_MS);
    }
  };

  globalThis.document?.addEventListener?.('visibilitychange', () => {
    if (globalThis.document.visibilityState === 'hidden') {
      send();
    }
  });

  return (event) => {
    waiting.push({ event, at: Date.now(), id: crypto.randomUUID() });
    waiting = waiting.slice(-MOST_WAITING);
    if (waiting.length >= MOST_OF_A_CALL) {
      send();
    } else {
      timer ??= setTimeout(send, WAIT_MS);
    }
  };
}
