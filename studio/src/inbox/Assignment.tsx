/** The assignment of a question: claim, release, delegate and reassign, as far as the server allows. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { api, given, type Promised } from "../api/client";
import { useKeys } from "../shell/keys";
import { useMe } from "../shell/me";
import { mayOperate, mayRespond } from "../shell/rights";
import { hindrance, isFor, type Question, userName } from "./question";

type Way = "delegate" | "reassign";

export function Assignment({ question }: { question: Question }) {
  const me = useMe();
  const client = useQueryClient();
  const [way, setWay] = useState<Way>();
  const path = { params: { path: { question_id: question.id } } };
  const self = { user_id: me.user_id, groups: me.groups, roles: [] };
  const done = {
    onSuccess: (changed: Promised) => {
      client.setQueryData(["question", question.id], { ...changed, data: question.data });
      setWay(undefined);
    },
    onError: () => void client.invalidateQueries({ queryKey: ["question", question.id] }),
    onSettled: () => void client.invalidateQueries({ queryKey: ["history", question.id] }),
  };
  const claim = useMutation({
    mutationFn: () => given(api.POST("/v1/questions/{question_id}/claim", { ...path, body: self })),
    ...done,
  });
  const release = useMutation({
    mutationFn: () => given(api.POST("/v1/questions/{question_id}/release", { ...path, body: self })),
    ...done,
  });
  const give = useMutation({
    mutationFn: ({ by, to, why }: { by: Way; to: string[]; why: string }) =>
      by === "delegate"
        ? given(
            api.POST("/v1/questions/{question_id}/delegate", {
              ...path,
              body: { ...self, to, ...(why !== "" && { note: why }) },
            }),
          )
        : given(
            api.POST("/v1/questions/{question_id}/reassign", {
              ...path,
              body: { to, by: me.user_id, ...(why !== "" && { reason: why }) },
            }),
          ),
    ...done,
  });

  const user = userName(me.user_id);
  const claimedBy = question.progress?.claimed_by;
  const isVote = question.data.policy?.quorum !== undefined;
  const may = mayRespond(me) && hindrance(question, me.user_id, me.names) === undefined;
  const canClaim = may && !isVote && claimedBy === undefined;
  const canRelease = mayRespond(me) && claimedBy === user && isFor(question, me.names);
  const canDelegate = may && (!isVote || question.assignees.includes(user));
  const canReassign = mayOperate(me) && (isVote || !canDelegate);
  const isBusy = claim.isPending || release.isPending || give.isPending;
  const trouble = [claim, release, give].find((each) => each.isError)?.error;
  const run = (action: { mutate: () => void }) => {
    for (const each of [claim, release, give]) each.reset();
    if (!isBusy) action.mutate();
  };
  const open = (next: Way) => setWay((now) => (now === next ? undefined : next));
  useKeys({
    ...(canClaim && { t: () => run(claim) }),
    ...(canRelease && { t: () => run(release) }),
    ...(canDelegate && { d: () => open("delegate") }),
    ...(!canDelegate && canReassign && { d: () => open("reassign") }),
  });
  if (!canClaim && !canRelease && !canDelegate && !canReassign) return null;
  return (
    <section className="assignment" aria-label="Assignment">
      <div className="buttons">
        {canClaim && (
          <button type="button" disabled={isBusy} onClick={() => run(claim)} aria-keyshortcuts="t">
            Claim
          </button>
        )}
        {canRelease && (
          <button type="button" disabled={isBusy} onClick={() => run(release)} aria-keyshortcuts="t">
            Release
          </button>
        )}
        {canDelegate && (
          <button
            type="button"
            aria-expanded={way === "delegate"}
            onClick={() => open("delegate")}
            aria-keyshortcuts="d"
          >
            {isVote ? "Give my vote away" : "Delegate"}
          </button>
        )}
        {canReassign && (
          <button
            type="button"
            aria-expanded={way === "reassign"}
            onClick={() => open("reassign")}
            aria-keyshortcuts={canDelegate ? undefined : "d"}
          >
            Reassign
          </button>
        )}
      </div>
      {trouble != null && (
        <p className="trouble" role="alert">
          Failed: {trouble.message}
        </p>
      )}
      {way !== undefined && (
        <GiveForm
          key={way}
          way={way}
          isBusy={isBusy}
          onGive={(to, why) => {
            claim.reset();
            release.reset();
            give.mutate({ by: way, to, why });
          }}
          onClose={() => setWay(undefined)}
        />
      )}
    </section>
  );
}

interface GiveProps {
  way: Way;
  isBusy: boolean;
  onGive: (to: string[], why: string) => void;
  onClose: () => void;
}

function GiveForm({ way, isBusy, onGive, onClose }: GiveProps) {
  const [to, setTo] = useState("");
  const [why, setWhy] = useState("");
  const first = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => first.current?.focus(), []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") onClose();
  };
  return (
    <form
      className="give"
      aria-label={way === "delegate" ? "Delegate" : "Reassign"}
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) onGive(namesIn(to), why.trim());
      }}
    >
      <label htmlFor={`${id}-to`}>To</label>
      <input
        id={`${id}-to`}
        ref={first}
        value={to}
        required
        autoComplete="off"
        aria-describedby={`${id}-help`}
        onChange={(event) => setTo(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <small id={`${id}-help`}>Names, separated by commas: bob, group:finance, role:approver</small>
      <label htmlFor={`${id}-why`}>Reason</label>
      <input
        id={`${id}-why`}
        value={why}
        autoComplete="off"
        onChange={(event) => setWhy(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="buttons">
        <button type="submit" className="primary" disabled={isBusy}>
          {way === "delegate" ? "Delegate it" : "Reassign it"}
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </form>
  );
}

/** Assignees as typed; a name without a group's or role's prefix is a user. */
function namesIn(text: string): string[] {
  const names = text.split(",").map((each) => each.trim());
  return names
    .filter((each) => each !== "")
    .map((each) => (/^(user|group|role):/.test(each) ? each : `user:${each}`));
}
