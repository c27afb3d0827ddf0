/** Open questions, page by page, updated by the server's events. */

import { type InfiniteData, type QueryClient, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useMemo, useState } from "react";
import { api, given, type Promised } from "../api/client";
import { follow, type StreamEvent } from "../api/events";
import { useMe } from "../shell/me";
import { type Question, questionOf, shownQuestion } from "./question";

export type View = "mine" | "all" | "snoozed";

export interface QuestionPage {
  items: Question[];
  next: string | null;
}

/** The events since the list was read: each changed question, or that it was assigned to others. */
type Changes = ReadonlyMap<string, Question | "gone">;

type Read = InfiniteData<QuestionPage, string | null>;

/** Called with a question that was asked or changed, and its earlier state, if known. */
type OnAsked = (question: Question, before: Question | undefined) => void;

/** A page of the list, with each question as shown. */
export function shownPage({ items, next }: { items: Promised[]; next: string | null }): QuestionPage {
  return { items: items.map(shownQuestion), next };
}

const FIRST_PAGE = 200;
export const PAGE = 1000;
const NOTHING: Changes = new Map();

export function useInbox(view: View, names: ReadonlySet<string>, onAsked: OnAsked) {
  const assignee = assigneesOf(view, names);
  const queryKey = ["questions", { assignee }];
  const { changes, isFollowed } = useEvents(assignee, queryKey, onAsked);
  const inbox = useInfiniteQuery({
    queryKey,
    queryFn: async ({ pageParam }) => {
      const query = {
        limit: pageParam === null ? FIRST_PAGE : PAGE,
        ...(assignee && { assignee }),
        ...(pageParam && { after: pageParam }),
      };
      return shownPage(await given(api.GET("/v1/questions", { params: { query } })));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    enabled: isFollowed,
    staleTime: 0,
    refetchOnWindowFocus: false,
  });
  const { data, hasNextPage } = inbox;
  const questions = useMemo(
    () => (data === undefined ? [] : withNews(data.pages, changes, !hasNextPage)),
    [data, changes, hasNextPage],
  );
  return { ...inbox, questions, changes };
}

/** The assignees of a view; undefined: all. */
export function assigneesOf(view: View, names: ReadonlySet<string>): string[] | undefined {
  return view === "all" ? undefined : [...names];
}

/** Follow the inbox's events. The list is read after they are followed, so that none is missed in between. */
function useEvents(
  assignee: string[] | undefined,
  queryKey: readonly unknown[],
  onAsked: OnAsked,
): { changes: Changes; isFollowed: boolean } {
  const client = useQueryClient();
  const address = new URL("v1/questions/events", document.baseURI);
  for (const each of assignee ?? []) address.searchParams.append("assignee", each);
  const url = address.toString();
  const name = JSON.stringify(queryKey);
  const { user_id, groups, roles } = useMe();
  const who = JSON.stringify([user_id, groups, roles]);
  const followed = `${who} ${url}`;
  const [news, setNews] = useState<{ of: string; changes: Changes }>({ of: "", changes: NOTHING });
  const tellAsked = useEffectEvent(onAsked);
  useEffect(() => {
    const queryKey = JSON.parse(name) as unknown[];
    let changes: Changes = NOTHING;
    const tell = (next: Changes) => {
      changes = next;
      setNews({ of: followed, changes });
    };
    const put = (message: StreamEvent) => {
      const question = questionOf(message.data);
      const pages = client.getQueryData<Read>(queryKey)?.pages ?? [];
      const before = changes.get(question.id) ?? listed(pages, question.id);
      client.setQueryData<Question>(["question", question.id], (known) =>
        known !== undefined && known.version > question.version ? known : question,
      );
      client.invalidateQueries({ queryKey: ["history", question.id] });
      tell(new Map(changes).set(question.id, question));
      // the end of the list was not read, so other new questions are unknown
      const isNews = message.type === "asked" || pages.at(-1)?.next === null;
      if (isNews && question.state === "pending") tellAsked(question, before === "gone" ? undefined : before);
    };
    const drop = (message: StreamEvent) => {
      const { id } = JSON.parse(message.data) as { id: string };
      client.invalidateQueries({ queryKey: ["question", id] });
      client.invalidateQueries({ queryKey: ["history", id] });
      tell(new Map(changes).set(id, "gone"));
    };
    const lookAgain = () => {
      tell(NOTHING);
      client.invalidateQueries({ queryKey });
      client.invalidateQueries({ queryKey: ["questions", "found"] });
    };
    const stop = follow(url, who, {
      open: () => tell(changes),
      error: () => tell(changes),
      asked: put,
      changed: put,
      settled: put,
      gone: drop,
      gap: lookAgain,
    });
    return () => {
      stop();
      keep(client, queryKey, changes);
    };
  }, [client, url, name, who, followed]);
  const isFollowed = news.of === followed;
  return { changes: isFollowed ? news.changes : NOTHING, isFollowed };
}

function listed(pages: readonly QuestionPage[], id: string): Question | undefined {
  for (const { items } of pages) {
    const found = items.find((each) => each.id === id);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Apply the events since to the pages, for later renderings. */
function keep(client: QueryClient, queryKey: readonly unknown[], changes: Changes): void {
  client.setQueryData<Read>(
    queryKey,
    (read) =>
      read && {
        ...read,
        pages: read.pages.map((page) => ({ ...page, items: withNews([page], changes, false) })),
      },
  );
}

/** Questions are listed oldest first: new ones are appended once the end was read. */
export function withNews(pages: readonly QuestionPage[], changes: Changes, isWhole: boolean): Question[] {
  const read = pages.flatMap((page) => page.items);
  if (changes.size === 0) return read;
  const known = new Set(read.map((each) => each.id));
  const asked = isWhole ? [...changes.values()].filter((each) => each !== "gone" && !known.has(each.id)) : [];
  return [...read.map((each) => newest(each, changes)), ...asked].filter(
    (each): each is Question => each !== "gone" && each.state === "pending",
  );
}

function newest(question: Question, changes: Changes): Question | "gone" {
  const news = changes.get(question.id);
  if (news === undefined) return question;
  const isOld = news !== "gone" && news.state === "pending" && news.version < question.version;
  return isOld ? question : news;
}
