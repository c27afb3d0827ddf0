/** Checks a value beside the page, for as long as a person waits. */

import type { Wrong } from "./checks";

const LONGEST_MILLISECONDS = 2_000;

/** Return the errors of a value; none if that takes too long or cannot be found out here: the server checks it, too. */
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
