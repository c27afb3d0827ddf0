/** Checks a value in a worker, within the time that a person waits. */

import type { Wrong } from "./checks";

const LONGEST_MILLISECONDS = 2_000;

/** Return a value's errors; none if the check takes too long or is not possible here. The server checks it, too. */
export function errorsOf(schema: object, value: unknown): Promise<Wrong[]> {
  return new Promise((resolve) => {
    const worker = new Worker(new URL("./checker.ts", import.meta.url), { type: "module" });
    const end = (found: Wrong[]) => {
      clearTimeout(timer);
      worker.terminate();
      resolve(found);
    };
    const timer = setTimeout(() => end([]), LONGEST_MILLISECONDS);
    worker.onmessage = ({ data }: MessageEvent<Wrong[]>) => end(data);
    worker.onerror = () => end([]);
    worker.postMessage(JSON.stringify({ schema, value }));
  });
}
