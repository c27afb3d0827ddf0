/** Open questions, page by page, kept up to date by the server's events. */

import { type InfiniteData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, given } from "../api/client";
import { type Question, questionOf } from "./question";

export type View = "mine" | "all" | "snoozed";

interface Page {
  items: Question[];
  next: string | null;
}

type Pages = InfiniteData<Page, string | null>;

const PAGE = 200;

export function useInbox(view: View, names: ReadonlySet<string>) {
  const assignee = view === "all" ? undefined : [...names];
  const key = ["questions", { assignee }];
  const inbox = useInfiniteQuery({
    queryKey: key,
    queryFn: async ({ pageParam }) => {
      const query = { limit: PAGE, ...(assignee && { assignee }), ...(pageParam && { after: pageParam }) };
      return (await given(api.GET("/v1/questions", { params: { query } }))) as unknown as Page;
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  useEvents(assignee, key);
  return { ...inbox, questions: inbox.data?.pages.flatMap((page) => page.items) ?? [] };
}

/** Have the list follow the inbox's events. After a cut the browser connects again, and says where it was. */
function useEvents(assignee: string[] | undefined, key: readonly unknown[]): void {
  const client = useQueryClient();
  const address = new URL("v1/questions/events", document.baseURI);
  for (const each of assignee ?? []) address.searchParams.append("assignee", each);
  const url = address.toString();
  const name = JSON.stringify(key);
  useEffect(() => {
    const queryKey = JSON.parse(name) as unknown[];
    const source = new EventSource(url);
    const show = (question: Question) => {
      client.setQueryData<Question>(["question", question.id], (known) =>
        known !== undefined && known.version > question.version ? known : question,
      );
      client.invalidateQueries({ queryKey: ["history", question.id] });
    };
    const put = (message: MessageEvent<string>) => {
      const question = questionOf(message.data);
      show(question);
      client.setQueryData<Pages>(queryKey, (pages) => pages && withQuestion(pages, question));
    };
    const drop = (message: MessageEvent<string>) => {
      const { id } = JSON.parse(message.data) as { id: string };
      client.invalidateQueries({ queryKey: ["question", id] });
      client.invalidateQueries({ queryKey: ["history", id] });
      client.setQueryData<Pages>(queryKey, (pages) => pages && without(pages, id));
    };
    const settle = (message: MessageEvent<string>) => {
      const question = questionOf(message.data);
      show(question);
      client.setQueryData<Pages>(queryKey, (pages) => pages && without(pages, question.id));
    };
    const lookAgain = () => client.invalidateQueries({ queryKey });
    source.addEventListener("asked", put);
    source.addEventListener("changed", put);
    source.addEventListener("settled", settle);
    source.addEventListener("gone", drop);
    source.addEventListener("gap", lookAgain);
    return () => source.close();
  }, [client, url, name]);
}

function withQuestion(pages: Pages, question: Question): Pages {
  const isKnown = pages.pages.some((page) => page.items.some((each) => each.id === question.id));
  const last = pages.pages.length - 1;
  return {
    ...pages,
    pages: pages.pages.map((page, number) => {
      if (isKnown) {
        return { ...page, items: page.items.map((each) => (each.id === question.id ? question : each)) };
      }
      const isEnd = number === last && page.next === null;
      return isEnd ? { ...page, items: [...page.items, question] } : page;
    }),
  };
}

function without(pages: Pages, id: string): Pages {
  return {
    ...pages,
    pages: pages.pages.map((page) => ({ ...page, items: page.items.filter((each) => each.id !== id) })),
  };
}
