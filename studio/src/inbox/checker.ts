/** The worker that checks values: a pattern or a schema may take a browser hours. */

import { wrongOf } from "./checks";

self.onmessage = ({ data }: MessageEvent<string>) => {
  const { schema, value } = JSON.parse(data) as { schema: object; value: unknown };
  self.postMessage(wrongOf(schema, value));
};
