/** An action on a list: sent once, its refusal shown, and the list reloaded. */

import { useMutation, useQueryClient } from "@tanstack/react-query";

export interface Act {
  run: (does: () => Promise<unknown>, done?: () => void) => void;
  isBusy: boolean;
  error: Error | null;
  /** Clear the last refusal. */
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
