/** The workflow and the group that asked: only runs have them, not questions. */

import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, given } from "../api/client";

export interface Origin {
  workflow: string;
  group: string;
}

type Origins = ReadonlyMap<string, Origin>;

/** At most this many runs are requested one by one; for more, all open runs are listed. */
const FEW = 30;
const PAGE = 1000;
const MOST_PAGES = 30;
const NONE: Origins = new Map();

export function useOrigins(runIds: readonly string[], isWanted: boolean) {
  const isMany = runIds.length > FEW;
  const listed = useQuery({
    queryKey: ["origins"],
    queryFn: ({ signal }) => listOrigins(signal),
    enabled: isWanted && isMany,
    staleTime: Infinity,
  });
  const list = listed.data ?? NONE;
  const isReady = isWanted && (!isMany || listed.isSuccess);
  const rest = useMemo(
    () => (isReady ? runIds.filter((id) => !list.has(id)).slice(-FEW) : []),
    [isReady, runIds, list],
  );
  const alone = useQueries({
    queries: rest.map((id) => ({
      queryKey: ["origin", id],
      queryFn: async (): Promise<Origin> =>
        given(api.GET("/v1/runs/{run_id}", { params: { path: { run_id: id } } })),
      staleTime: Infinity,
      retry: false,
    })),
    combine: (found) => ({
      origins: found.map((each) => each.data),
      isLooking: found.some((each) => each.isLoading),
      error: found.find((each) => each.isError)?.error ?? null,
    }),
  });
  const { origins } = alone;
  const known = useMemo(() => {
    const all = new Map(list);
    rest.forEach((id, at) => {
      const origin = origins[at];
      if (origin !== undefined) all.set(id, origin);
    });
    return all as Origins;
  }, [list, rest, origins]);
  return {
    known,
    isLooking: listed.isLoading || alone.isLooking,
    error: isWanted ? (listed.error ?? alone.error) : null,
  };
}

async function listOrigins(signal: AbortSignal): Promise<Origins> {
  const origins = new Map<string, Origin>();
  let after: string | null | undefined;
  for (let page = 0; page < MOST_PAGES && after !== null; page++) {
    const query = {
      state: ["paused" as const, "running" as const, "ready" as const],
      limit: PAGE,
      ...(after !== undefined && { after }),
    };
    const read = await given(api.GET("/v1/runs", { params: { query }, signal }));
    for (const { id, workflow, group } of read.items) origins.set(id, { workflow, group });
    after = read.next ?? null;
  }
  return origins;
}
