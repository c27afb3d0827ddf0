/** The number of questions that wait for the user, on every page. */

import { useQuery } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { api, given } from "../api/client";
import { hasShared } from "../api/events";
import type { Me } from "../shell/me";
import type { Question } from "./question";
import { useAsleep } from "./snoozes";
import { type QuestionPage, shownPage, type View } from "./useInbox";
import { Listeners } from "../shell/listeners";
import { useShown } from "../shell/useShown";

/** At most this many are counted where the inbox itself is not shown. */
const COUNTED = 100;
const NOTHING: readonly Question[] = [];
const LOOK_AGAIN_MILLISECONDS = 20_000;

export interface Mine {
  count: number;
  isMore: boolean;
}

let here: Mine | undefined;
const listeners = new Listeners();

function say(mine: Mine | undefined): void {
  here = mine;
  listeners.tell();
}

/** Let the shown list provide the count, if it lists the user's questions and hears of changes. */
export function useMineHere(view: View, isKnown: boolean, count: number, isMore: boolean): void {
  const isShown = useShown();
  const isFresh = isKnown && (isShown || hasShared());
  useEffect(() => {
    say(view === "mine" && isFresh ? { count, isMore } : undefined);
  }, [view, isFresh, count, isMore]);
  useEffect(() => () => say(undefined), []);
}

/** The number of the user's questions; where the inbox is not shown, also their ids, polled periodically. */
export function useMine(me: Me): { mine: Mine | undefined; seen: QuestionPage | undefined } {
  const shown = useSyncExternalStore(listeners.subscribe, () => here);
  const assignee = [...me.names];
  const { data } = useQuery({
    queryKey: ["mine", assignee],
    queryFn: async () => {
      const query = { assignee, limit: COUNTED };
      return shownPage(await given(api.GET("/v1/questions", { params: { query } })));
    },
    enabled: shown === undefined,
    refetchInterval: LOOK_AGAIN_MILLISECONDS,
    refetchIntervalInBackground: true,
    staleTime: 0,
    retry: false,
  });
  const asleep = useAsleep(data?.items ?? NOTHING, me.user_id);
  if (shown !== undefined) return { mine: shown, seen: undefined };
  return {
    mine: data && { count: data.items.length - asleep.size, isMore: data.next !== null },
    seen: data,
  };
}

/** The questions that were not there at the last poll. */
export function fresh(before: QuestionPage | undefined, now: QuestionPage): readonly Question[] {
  if (before === undefined || before.next !== null) return [];
  const known = new Set(before.items.map((each) => each.id));
  return now.items.filter((each) => !known.has(each.id));
}
