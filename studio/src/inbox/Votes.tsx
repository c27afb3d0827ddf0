/** The progress of a vote. */

import { visible } from "../shell/visible";
import { Since } from "../time/Times";
import type { Question } from "./question";

export function Votes({ question }: { question: Question }) {
  const quorum = question.data.policy?.quorum;
  if (quorum === undefined || question.state !== "pending") return null;
  const votes = question.progress?.votes ?? [];
  const approvals = votes.filter((each) => each.approved).length;
  return (
    <section className="votes" aria-label="Votes">
      <h3>
        {approvals} of {quorum.approvals} approvals
        {quorum.of > quorum.approvals && `, of up to ${quorum.of} voters`}
      </h3>
      {votes.length > 0 && (
        <ul>
          {votes.map((each) => (
            <li key={each.user_id}>
              <b>{each.user_id}</b> {each.approved ? "approved" : "rejected"} <Since at={each.at} />
              {each.note && <p className="help">{visible(each.note)}</p>}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
