/** A run's timeline, live. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { parseRecord } from "../api/exact";
import { useShown } from "../shell/useShown";
import { fallSilent, hear, NOBODY, type Piece, type Voice } from "./live";
import { changed, type Change, type Item } from "./timeline";

const PAYLOADS = ["opened", "value", "error"] as const;
const AT_ONCE = 1000;

/**
 * Return the items so far, the live output of running steps, and whether the run is active. Existing items arrive at
 * once, so that the page does not move; changes as they happen. After a cut the browser resumes where it was, and gets
 * the live output again. A hidden tab has no stream: over HTTP/1.1 six of them would leave none for the seventh tab.
 */
export function useTimeline(runId: string): {
  items: readonly Item[];
  voices: readonly Voice[];
  isLive: boolean;
} {
  const client = useQueryClient();
  const [items, setItems] = useState<readonly Item[]>([]);
  const [voices, setVoices] = useState(NOBODY);
  const [isLive, setLive] = useState(true);
  const isShown = useShown();
  const endOf = useRef<string>(null);
  useEffect(() => {
    if (!isShown || endOf.current === runId) return;
    const rows = new Map<number, Item>();
    let isPast = true;
    let isNew = false;
    let hasEnded = false;
    let heard = NOBODY;
    let frame: number | undefined;
    const show = () => {
      frame = undefined;
      if (hasEnded) endOf.current = runId;
      setVoices(heard);
      if (!isNew) return;
      isNew = false;
      setItems([...rows.values()]);
      void client.invalidateQueries({ queryKey: ["run", runId] });
    };
    const showSoon = () => {
      if (isPast) return;
      frame ??= window.requestAnimationFrame(show); // a long timeline arrives in few pieces
    };
    const path = `v1/runs/${encodeURIComponent(runId)}/timeline?follow=true&live=true`;
    const stream = new EventSource(new URL(path, document.baseURI));
    stream.onopen = () => {
      heard = NOBODY;
    };
    stream.onmessage = (message: MessageEvent<string>) => {
      const change = parseRecord<Change>(message.data, PAYLOADS);
      const item = changed(rows.get(change.row), change);
      rows.set(change.row, item);
      heard = fallSilent(heard, item.n, change);
      isNew = true;
      if (rows.size >= AT_ONCE) isPast = false;
      showSoon();
    };
    stream.addEventListener("current", () => {
      isPast = false;
      showSoon();
    });
    stream.addEventListener("live", (message: MessageEvent<string>) => {
      heard = hear(heard, JSON.parse(message.data) as Piece);
      showSoon();
    });
    stream.addEventListener("end", () => {
      hasEnded = true;
      stream.close();
      isPast = false;
      showSoon();
      setLive(false);
      void client.invalidateQueries({ queryKey: ["run", runId] });
    });
    return () => {
      stream.close();
      if (frame !== undefined) window.cancelAnimationFrame(frame);
    };
  }, [client, isShown, runId]);
  return { items, voices, isLive };
}
