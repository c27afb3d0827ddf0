/** A list of the API, page by page, polled while only its first page is shown. */

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";

const LOOK_AGAIN_MILLISECONDS = 5_000;

export interface List<T> {
  items: T[];
  isLoaded: boolean;
  error: Error | null;
  /** Loads the next page; undefined if there is none. */
  more: (() => void) | undefined;
  isLoadingMore: boolean;
}

interface Page<T, A> {
  items: T[];
  next?: A | null;
}

export function useList<T, A = string>(
  key: readonly unknown[],
  load: (after: A | undefined) => Promise<Page<T, A>>,
): List<T> {
  const found = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => load(pageParam as A | undefined),
    initialPageParam: undefined as A | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) > 1 ? false : LOOK_AGAIN_MILLISECONDS),
  });
  return {
    items: found.data?.pages.flatMap((page) => page.items) ?? [],
    isLoaded: found.isSuccess,
    error: found.error,
    more: found.hasNextPage ? () => void found.fetchNextPage() : undefined,
    isLoadingMore: found.isFetchingNextPage,
  };
}
