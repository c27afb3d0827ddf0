/** What somebody does to what a list shows: sent once, its refusal told, and the list looked at again. */

import { useMutation, useQueryClient } from "@tanstack/react-query";

export interface Act {
  run: (does: () => Promise<unknown>, done?: () => void) => void;
  isBusy: boolean;
  error: Error | null;
  /** Forget the last refusal. */
  reset: () => void;
}

export function useAct(list: string): Act {
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: (does: () => Promise<unknown>) => does(),
    onSettled: () => client.invalidateQueries({ queryKey: [list] }),
  });
  return {
    run: (does, done) => act.mutate(does, done && { onSuccess: done }),
    isBusy: act.isPending,
    error: act.error,
    reset: act.reset,
  };
}
