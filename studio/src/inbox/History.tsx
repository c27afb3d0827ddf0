/** A question's comments and events, and the field for another comment. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useRef } from "react";
import { api, given } from "../api/client";
import { freshId } from "../api/freshId";
import { whence } from "../audit/origin";
import { useKeys } from "../shell/keys";
import { useMe } from "../shell/me";
import { mayRespond } from "../shell/rights";
import { visible } from "../shell/visible";
import { Since } from "../time/Times";
import { useDraft, write } from "./drafts";
import { type Event, useHistory } from "./useHistory";

const LONGEST = 10_000;

export function History({ id }: { id: string }) {
  const me = useMe();
  const history = useHistory(id);
  const events = (history.data ?? []).filter((each) => Object.hasOwn(SAID, each.kind));
  return (
    <section className="history" aria-label="Comments">
      <h3>Comments</h3>
      {history.isError && <p className="trouble">{history.error.message}</p>}
      {events.length > 0 && (
        <ol aria-live="polite">
          {events.map((each) => (
            <Happened key={each.id} event={each} />
          ))}
        </ol>
      )}
      {mayRespond(me) && <CommentForm id={id} />}
    </section>
  );
}

interface Details {
  text?: string;
  to?: string[] | number;
  note?: string | null;
  reason?: string | null;
}

const SAID: Record<string, (details: Details) => string> = {
  commented: () => "",
  claimed: () => "claimed it",
  released: () => "released it",
  delegated: ({ to }) => `delegated it to ${named(to)}`,
  reassigned: ({ to }) => `reassigned it to ${named(to)}`,
  escalated: ({ to }) => `Escalated to ${named(to)}`,
  reminded: ({ to }) => (named(to) ? `Reminded ${named(to)}` : "Reminded"),
  deadline_moved: () => "moved the deadline",
};

function named(to: Details["to"]): string {
  return Array.isArray(to) ? to.join(", ") : "";
}

function Happened({ event }: { event: Event }) {
  const details = (event.details ?? {}) as Details;
  const why = details.note ?? details.reason;
  return (
    <li className={event.kind}>
      <p>
        {event.by !== undefined && <b>{event.by}</b>} {SAID[event.kind]?.(details)}
        {event.by !== undefined && event.kind !== "commented" && event.origin !== undefined && (
          <>, {whence(event.origin)}</>
        )}{" "}
        <Since at={event.at} />
      </p>
      {event.kind === "commented" ? (
        <p className="help">{visible(details.text ?? "")}</p>
      ) : (
        why && <p className="help">{visible(why)}</p>
      )}
    </li>
  );
}

function CommentForm({ id }: { id: string }) {
  const me = useMe();
  const client = useQueryClient();
  const { comment = "" } = useDraft(id);
  const field = useRef<HTMLTextAreaElement>(null);
  const labelId = useId();
  const key = useRef<string>(undefined);
  const said = useMutation({
    mutationFn: (text: string) => {
      key.current ??= freshId();
      return given(
        api.POST("/v1/questions/{question_id}/comments", {
          params: { path: { question_id: id }, header: { "Idempotency-Key": key.current } },
          body: { text, user_id: me.user_id, groups: me.groups, roles: [] },
        }),
      );
    },
    onSuccess: (event, text) => {
      key.current = undefined;
      client.setQueryData<Event[]>(["history", id], (known) =>
        known?.some((each) => each.id === event.id) ? known : [...(known ?? []), event],
      );
      if (field.current?.value === text) write(id, { comment: "" });
    },
  });
  useKeys({ c: () => field.current?.focus() });
  const say = () => {
    if (comment.trim() !== "" && !said.isPending) said.mutate(comment);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        say();
      }}
    >
      <label htmlFor={labelId} className="unseen">
        Comment
      </label>
      <textarea
        id={labelId}
        ref={field}
        rows={2}
        maxLength={LONGEST}
        placeholder="Add a comment; everyone who sees the question can read it"
        aria-keyshortcuts="c"
        value={comment}
        onChange={(event) => {
          key.current = undefined;
          write(id, { comment: event.target.value });
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) say();
        }}
      />
      {said.isError && (
        <p className="trouble" role="alert">
          Not saved: {said.error.message}
        </p>
      )}
      <button type="submit" disabled={said.isPending || comment.trim() === ""}>
        Comment
      </button>
    </form>
  );
}
