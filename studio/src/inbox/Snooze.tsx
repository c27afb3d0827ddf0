/** Makes a question come back later. */

import { useRef } from "react";
import { useKeys } from "../shell/keys";
import { useMe } from "../shell/me";
import { useOfNow } from "../time/clock";
import { Lasting } from "../time/Times";
import type { Question } from "./question";
import { laterThan, snooze, useAsleep } from "./snoozes";

interface SnoozeProps {
  question: Question;
  onSnoozed: () => void;
}

export function Snooze({ question, onSnoozed }: SnoozeProps) {
  const me = useMe();
  const choice = useRef<HTMLSelectElement>(null);
  const wakesAt = useAsleep([question], me.user_id).get(question.id);
  const names = useOfNow((now) =>
    laterThan(now, question)
      .map(({ name }) => name)
      .join("\n"),
  );
  useKeys({ z: () => choice.current?.focus() });
  if (wakesAt !== undefined) {
    return (
      <p className="facts">
        <span>
          Snoozed <Lasting at={wakesAt} />
        </span>
        <button type="button" onClick={() => snooze(me.user_id, question.id, undefined)}>
          End snooze
        </button>
      </p>
    );
  }
  if (names === "") return null;
  return (
    <form
      className="snooze"
      onSubmit={(event) => {
        event.preventDefault();
        const later = laterThan(Date.now() / 1000, question);
        const chosen = later.find(({ name }) => name === choice.current?.value);
        if (chosen === undefined) return;
        snooze(me.user_id, question.id, chosen.at);
        onSnoozed();
      }}
    >
      <select ref={choice} aria-label="Later" aria-keyshortcuts="z">
        {names.split("\n").map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <button type="submit">Snooze</button>
    </form>
  );
}
