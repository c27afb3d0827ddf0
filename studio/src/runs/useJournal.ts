/** A run's journal as it grows. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { parseRecord } from "../api/exact";
import type { Entry } from "./timeline";

const PAYLOADS = ["value", "error"] as const;

/** Return the entries so far, and whether the run goes on. After a cut the browser goes on where it was. */
export function useJournal(runId: string): { entries: readonly Entry[]; isLive: boolean } {
  const client = useQueryClient();
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [isLive, setLive] = useState(true);
  useEffect(() => {
    const source = new EventSource(new URL(`v1/runs/${encodeURIComponent(runId)}/events`, document.baseURI));
    let arrived: Entry[] = [];
    let frame: number | undefined;
    const show = () => {
      frame = undefined;
      const more = arrived;
      arrived = [];
      setEntries((known) => [...known, ...more.filter(({ seq }) => seq > (known.at(-1)?.seq ?? -1))]);
      void client.invalidateQueries({ queryKey: ["run", runId] });
    };
    source.onmessage = (message: MessageEvent<string>) => {
      arrived.push(parseRecord<Entry>(message.data, PAYLOADS));
      frame ??= window.requestAnimationFrame(show); // a long journal comes in few pieces
    };
    source.addEventListener("end", () => {
      source.close();
      setLive(false);
      void client.invalidateQueries({ queryKey: ["run", runId] });
    });
    return () => {
      source.close();
      if (frame !== undefined) window.cancelAnimationFrame(frame);
    };
  }, [client, runId]);
  return { entries, isLive };
}
