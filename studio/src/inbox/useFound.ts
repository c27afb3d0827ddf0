/** The server's search results in the inbox, where not all of it is loaded, or where only the server can tell. */

import { useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, given } from "../api/client";
import type { Filter } from "./filter";
import type { Question } from "./question";
import {
  assigneesOf,
  PAGE,
  type QuestionPage,
  shownPage,
  type useInbox,
  type View,
  withNews,
} from "./useInbox";

type Inbox = ReturnType<typeof useInbox>;

/** The source of a filtered list: the inbox itself, or search results. */
export interface Source extends Pick<
  Inbox,
  "questions" | "fetchNextPage" | "hasNextPage" | "isFetching" | "isError" | "error"
> {
  /** The number of searched questions. */
  looked: number;
  isLooking: boolean;
}

export function useFound(inbox: Inbox, view: View, names: ReadonlySet<string>, filter: Filter): Source {
  const { workflow, group } = filter;
  const text = [filter.q, filter.run].filter((each) => each !== undefined).join(" ");
  const isOfRuns = workflow !== undefined || group !== undefined;
  const isAsked = isOfRuns || (text !== "" && inbox.hasNextPage);
  const assignee = assigneesOf(view, names);
  const which = {
    ...(assignee && { assignee }),
    ...(workflow !== undefined && { workflow }),
    ...(group !== undefined && { group }),
  };
  const found = useInfiniteQuery({
    queryKey: ["questions", "found", { ...which, text }],
    queryFn: async ({ pageParam, signal }) => {
      const query = { ...which, limit: PAGE, ...(text && { text }), ...(pageParam && { after: pageParam }) };
      return shownPage(await given(api.GET("/v1/questions", { params: { query }, signal })));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    enabled: isAsked,
    staleTime: 0,
    refetchOnWindowFocus: false,
  });
  const { data, hasNextPage } = found;
  const pages = data?.pages;
  const news = useMemo(() => newsOf(inbox.changes, pages), [inbox.changes, pages]);
  const asked = useQueries({
    queries: (isOfRuns ? news : []).map((each) => ({
      queryKey: ["asked by", each.id, workflow, group],
      queryFn: async () => {
        const { run_id } = each;
        if (run_id === undefined) return undefined;
        const query = { ...which, run_id, limit: PAGE };
        const { items } = await given(api.GET("/v1/questions", { params: { query } }));
        return items.some(({ id }) => id === each.id) ? each.id : undefined;
      },
      staleTime: Infinity,
    })),
    combine: (all) => all.map((each) => each.data).filter((each) => each !== undefined),
  });
  const questions = useMemo(() => {
    if (pages === undefined) return isOfRuns ? [] : inbox.questions;
    const listed = new Set([...pages.flatMap(({ items }) => items.map(({ id }) => id)), ...asked]);
    const all = withNews(pages, inbox.changes, !hasNextPage);
    return isOfRuns ? all.filter(({ id }) => listed.has(id)) : all;
  }, [pages, hasNextPage, isOfRuns, inbox.questions, inbox.changes, asked]);
  if (!isAsked) return { ...inbox, looked: inbox.questions.length, isLooking: false };
  return { ...found, questions, looked: (pages?.length ?? 0) * PAGE, isLooking: found.isLoading };
}

/** Questions asked since the pages were read. */
function newsOf(changes: Inbox["changes"], pages: readonly QuestionPage[] | undefined): Question[] {
  const known = new Set(pages?.flatMap(({ items }) => items.map(({ id }) => id)));
  return [...changes.values()].filter(
    (each): each is Question => each !== "gone" && each.state === "pending" && !known.has(each.id),
  );
}
