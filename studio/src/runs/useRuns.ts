/** Runs, newest first: the loaded pages, with the newest runs kept current. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { api, given } from "../api/client";
import type { Run, RunState } from "./run";

const AT_ONCE = 200;
const LOOK_AGAIN_MILLISECONDS = 3_000;

/** The filter, from the address. */
export interface Which {
  state?: RunState | undefined;
  workflow?: string | undefined;
  group?: string | undefined;
  session?: string | undefined;
}

function ask({ state, workflow, group, session }: Which, after: string | null) {
  const query = {
    limit: AT_ONCE,
    ...(state && { state: [state] }),
    ...(workflow && { workflow }),
    ...(group && { group }),
    ...(session && { session_id: session }),
    ...(after !== null && { after }),
  };
  return given(api.GET("/v1/runs", { params: { query } }));
}

export function useRuns(which: Which) {
  const key = ["runs", which];
  const pages = useInfiniteQuery({
    queryKey: [...key, "pages"],
    queryFn: ({ pageParam }) => ask(which, pageParam),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next ?? null,
    // Reloading all pages, however many, would be too much for one change.
    refetchOnWindowFocus: false,
  });
  const newest = useQuery({
    queryKey: [...key, "newest"],
    queryFn: () => ask(which, null),
    enabled: pages.isSuccess,
    refetchInterval: LOOK_AGAIN_MILLISECONDS,
  });
  const runs = useMemo(() => {
    const known = pages.data?.pages.flatMap((page) => page.items) ?? [];
    return newest.data === undefined ? known : merged(newest.data.items, known, newest.data.next != null);
  }, [pages.data, newest.data]);
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = pages;
  const fetchMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return {
    runs,
    fetchMore,
    hasMore: hasNextPage,
    error: pages.error ?? newest.error,
    isSuccess: pages.isSuccess,
  };
}

/** Put the newest runs before older ones. A run that should be among them but is not no longer matches. */
function merged(newest: readonly Run[], known: readonly Run[], hasOlder: boolean): Run[] {
  const ids = new Set(newest.map(({ id }) => id));
  const last = newest.at(-1);
  if (last === undefined || !hasOlder) return [...newest];
  const at = known.findIndex(({ id }) => id === last.id);
  const older = at >= 0 ? known.slice(at + 1) : known.filter((run) => run.created_at < last.created_at);
  return [...newest, ...older.filter(({ id }) => !ids.has(id))];
}
