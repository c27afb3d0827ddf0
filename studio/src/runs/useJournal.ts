/** A run's journal, live. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, given } from "../api/client";
import { parseRecord, parseRecords } from "../api/exact";
import { fallSilent, hear, NOBODY, type Piece, type Voice } from "./live";
import type { Entry } from "./timeline";

const PAYLOADS = ["value", "error"] as const;
const AT_ONCE = 1000;

/**
 * Return the entries so far, the live output of running steps, and whether the run is active. Existing entries arrive
 * at once, so that the page does not move; later ones as they happen. After a cut the browser resumes where it was,
 * and gets the live output again.
 */
export function useJournal(runId: string): {
  entries: readonly Entry[];
  voices: readonly Voice[];
  isLive: boolean;
} {
  const client = useQueryClient();
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [voices, setVoices] = useState(NOBODY);
  const [isLive, setLive] = useState(true);
  useEffect(() => {
    let source: EventSource | undefined;
    let isLeft = false;
    let arrived: Entry[] = [];
    let heard = NOBODY;
    let frame: number | undefined;
    const show = () => {
      frame = undefined;
      const more = arrived;
      arrived = [];
      setVoices(heard);
      if (more.length === 0) return;
      setEntries((known) => [...known, ...more.filter(({ seq }) => seq > (known.at(-1)?.seq ?? -1))]);
      void client.invalidateQueries({ queryKey: ["run", runId] });
    };
    const showSoon = () => {
      frame ??= window.requestAnimationFrame(show); // a long journal arrives in few pieces
    };
    const follow = (after: number) => {
      const path = `v1/runs/${encodeURIComponent(runId)}/events?live=true&after=${String(after)}`;
      const stream = new EventSource(new URL(path, document.baseURI));
      source = stream;
      stream.onopen = () => {
        heard = NOBODY;
      };
      stream.onmessage = (message: MessageEvent<string>) => {
        const entry = parseRecord<Entry>(message.data, PAYLOADS);
        arrived.push(entry);
        heard = fallSilent(heard, entry);
        showSoon();
      };
      stream.addEventListener("live", (message: MessageEvent<string>) => {
        heard = hear(heard, JSON.parse(message.data) as Piece);
        showSoon();
      });
      stream.addEventListener("end", () => {
        stream.close();
        setLive(false);
        void client.invalidateQueries({ queryKey: ["run", runId] });
      });
    };
    const begin = async () => {
      const past = await journalSoFar(runId).catch(() => []); // the stream provides what is missing
      if (isLeft) return;
      setEntries(past);
      follow(past.at(-1)?.seq ?? -1);
    };
    void begin();
    return () => {
      isLeft = true;
      source?.close();
      if (frame !== undefined) window.cancelAnimationFrame(frame);
    };
  }, [client, runId]);
  return { entries, voices, isLive };
}

async function journalSoFar(runId: string): Promise<readonly Entry[]> {
  const params = { path: { run_id: runId }, query: { limit: AT_ONCE } };
  const text = await given(api.GET("/v1/runs/{run_id}/journal", { params, parseAs: "text" }));
  return parseRecords<Entry>(text, PAYLOADS);
}
