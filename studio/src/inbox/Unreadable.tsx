/** A question that cannot be read: the reason, and a button to withdraw it. */

import { useQueryClient } from "@tanstack/react-query";
import { api, given } from "../api/client";
import { Asking } from "../lists/Asking";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { visible } from "../shell/visible";
import { Asked } from "./Asked";
import type { Question } from "./question";

export function Unreadable({ question }: { question: Question }) {
  const me = useMe();
  const client = useQueryClient();
  const cancel = async () => {
    const path = { question_id: question.id };
    await given(
      api.POST("/v1/questions/{question_id}/cancel", { params: { path }, body: { by: me.user_id } }),
    );
    await client.invalidateQueries({ queryKey: ["question", question.id] });
  };
  return (
    <article className="question" aria-labelledby="question-text">
      <h2 id="question-text" tabIndex={-1}>
        Question {visible(question.id)} cannot be read
      </h2>
      <p className="facts">
        <Asked run={question.run_id} at={question.created_at} />
      </p>
      <ul className="trouble">
        {question.unreadable?.map(({ field, message }) => (
          <li key={field}>
            <code>{visible(field)}</code>: {visible(message)}
          </li>
        ))}
      </ul>
      {question.state !== "pending" ? (
        <p className="hint">It is {question.state.replace("_", " ")}.</p>
      ) : mayOperate(me) ? (
        <Asking
          verb="Withdraw"
          title="Withdraw this question?"
          list="questions"
          className="danger"
          send={cancel}
        >
          <p>Its run continues with an error: the question was withdrawn.</p>
        </Asking>
      ) : (
        <p className="hint">An operator can withdraw it.</p>
      )}
    </article>
  );
}
