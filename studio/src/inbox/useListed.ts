/** The inbox as its list shows it: filtered, without decided questions. */

import { useCallback, useEffect, useMemo, useState } from "react";
import { useOfNow } from "../time/clock";
import { useBatches } from "./batches";
import { useDecisions } from "./decisions";
import { type Filter, fits, isEmpty } from "./filter";
import type { Question } from "./question";
import { useSettledHere } from "./settled";
import type { Source } from "./useFound";

/** This many are searched automatically. */
const LOOKED_THROUGH = 20_000;

export function useListed(source: Source, filter: Filter, current: string | undefined) {
  const { questions, fetchNextPage, hasNextPage, isFetching, isError } = source;
  const open = useUndecided(questions, current);
  const isFiltered = !isEmpty(filter);
  const minute = useOfNow((now) => String(Math.floor(now / 60)));
  const shown = useMemo(() => {
    if (!isFiltered) return open;
    const now = Number(minute) * 60;
    return open.filter((each) => fits(each, filter, now));
  }, [open, isFiltered, filter, minute]);

  const [most, setMost] = useState(LOOKED_THROUGH);
  const isLookingOn = isFiltered && hasNextPage && source.looked < most;
  const next = useCallback(() => {
    // It cancels nothing: the list may be reloading since this was rendered.
    if (hasNextPage && !isFetching && !isError) void fetchNextPage({ cancelRefetch: false });
  }, [hasNextPage, isFetching, isError, fetchNextPage]);
  useEffect(() => {
    if (isLookingOn) next();
  }, [isLookingOn, next]);
  return {
    shown,
    isFiltered,
    next,
    isLooking: isLookingOn || source.isLooking,
    error: source.error,
    /** Search more, if that was not enough. */
    lookOn: isFiltered && hasNextPage && !isLookingOn ? () => setMost(most + LOOKED_THROUGH) : undefined,
  };
}

export function useUndecided(
  questions: readonly Question[],
  current: string | undefined,
): readonly Question[] {
  const decisions = useDecisions();
  const batches = useBatches();
  const settled = useSettledHere();
  return useMemo(() => {
    const decided = new Set(decisions.map((each) => each.question.id));
    for (const { items, state } of batches)
      if (state !== "done") for (const { question } of items) decided.add(question.id);
    if (current !== undefined) decided.delete(current);
    const gone = settled.size + decided.size > 0;
    return gone ? questions.filter(({ id }) => !decided.has(id) && !settled.has(id)) : questions;
  }, [questions, decisions, batches, settled, current]);
}
