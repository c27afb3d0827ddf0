/**
 * One stream of the server's events for all tabs of a browser. Over HTTP/1.1 a browser has six connections to a server,
 * which as many streams would use up. One tab leads and shares its stream. When it closes, another tab leads.
 */

export interface StreamEvent {
  type: string;
  data: string;
}

/**
 * By the type of an event. `open` reports a stream, `error` that there is none for now. `gap` reports that
 * events may have been missed: also when a stream starts after an `error`, or does not resume another one.
 */
export type Listeners = Readonly<Record<string, (received: StreamEvent) => void>>;

const TRY_AGAIN_MILLISECONDS = 5_000;
/** A leading tab that does not answer for this long is frozen, or about to close. */
const PATIENCE_MILLISECONDS = 3_000;

const plain = (type: string): StreamEvent => ({ type, data: "{}" });

/** Whether the tabs share a stream. There are no locks unless the page came over https or from this machine. */
export function hasShared(): boolean {
  return "locks" in navigator && "BroadcastChannel" in window;
}

/**
 * Listen to events until the returned function is called.
 *
 * `who` identifies the listener and what they may see: a tab of another user never provides their events.
 */
export function follow(url: string, who: string, listeners: Listeners): () => void {
  return hasShared()
    ? share(url, `signoff.events ${who} ${url}`, listeners)
    : streamWhileShown(url, listeners);
}

/**
 * A stream of this tab alone, for want of locks. A hidden tab has none, or six would leave the seventh tab without a
 * connection; what it misses is a `gap`.
 */
function streamWhileShown(url: string, listeners: Listeners): () => void {
  let close: (() => void) | undefined;
  let first = "open";
  const look = () => {
    if (document.visibilityState === "visible")
      close ??= stream(url, { ...listeners, open: () => listeners[first]?.(plain(first)) });
    else if (close !== undefined) {
      close();
      close = undefined;
      first = "gap";
    }
  };
  look();
  document.addEventListener("visibilitychange", look);
  return () => {
    document.removeEventListener("visibilitychange", look);
    close?.();
  };
}

function share(url: string, name: string, listeners: Listeners): () => void {
  const channel = new BroadcastChannel(name);
  const giveUp = new AbortController();
  let isOpen = false;
  let isLeading = false;
  let close: (() => void) | undefined;
  let release: (() => void) | undefined;
  let timer: number | undefined;

  const hear = (received: StreamEvent) => listeners[received.type]?.(received);
  const begin = (type: string) => {
    window.clearTimeout(timer);
    hear(plain(isOpen ? "gap" : type));
    isOpen = true;
  };
  const relay = (received: StreamEvent) => {
    if (received.type === "open" || received.type === "gap") begin(received.type);
    else hear(received);
    if (isLeading) channel.postMessage(received);
  };
  const connect = () => {
    window.clearTimeout(timer);
    const types = Object.keys(listeners);
    close ??= stream(url, Object.fromEntries(types.map((type) => [type, relay])));
  };
  const ask = () => {
    if (close !== undefined) return;
    channel.postMessage(plain("ping"));
    window.clearTimeout(timer);
    timer = window.setTimeout(connect, PATIENCE_MILLISECONDS);
  };
  const look = () => document.visibilityState === "visible" && ask();

  channel.onmessage = ({ data: received }: MessageEvent<StreamEvent>) => {
    if (received.type === "ping") {
      if (isLeading && isOpen) channel.postMessage(plain("here"));
    } else if (close !== undefined) return;
    else if (received.type === "open" || received.type === "gap") begin(received.type);
    else if (received.type !== "here") hear(received);
    else if (isOpen) window.clearTimeout(timer);
    else begin("open");
  };
  navigator.locks
    .request(name, { signal: giveUp.signal }, () => {
      isLeading = true;
      if (close !== undefined && isOpen) channel.postMessage(plain("open"));
      connect();
      return new Promise<void>((resolve) => {
        release = resolve;
      });
    })
    .catch((error: unknown) => {
      if (!giveUp.signal.aborted) throw error;
    });
  document.addEventListener("visibilitychange", look);
  ask();
  return () => {
    giveUp.abort();
    document.removeEventListener("visibilitychange", look);
    window.clearTimeout(timer);
    close?.();
    channel.close();
    release?.();
  };
}

/** A stream of this tab alone. */
function stream(url: string, listeners: Listeners): () => void {
  let source: EventSource;
  let timer: number | undefined;
  let isFirst = true; // no attempt has ended yet, so no list was read without a stream
  const connect = () => {
    source = new EventSource(url);
    // A stream that is cut resumes after its last event. One without events starts at the present.
    let isPlaced = false;
    for (const [name, listener] of Object.entries(listeners)) {
      if (name === "open") continue;
      source.addEventListener(name, ({ type, data, lastEventId }: MessageEvent<string>) => {
        isPlaced ||= Boolean(lastEventId);
        listener({ type, data });
      });
    }
    source.addEventListener("open", () => {
      const type = isFirst ? "open" : "gap";
      isFirst = false;
      if (!isPlaced) listeners[type]?.(plain(type));
    });
    source.addEventListener("error", () => {
      isFirst = false;
      if (source.readyState === EventSource.CLOSED)
        timer = window.setTimeout(connect, TRY_AGAIN_MILLISECONDS);
    });
  };
  connect();
  return () => {
    window.clearTimeout(timer);
    source.close();
  };
}
