/** One question: its text, its action, and the form that answers it. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { api, given, type Refused } from "../api/client";
import { whence } from "../audit/origin";
import { Json } from "../shell/Json";
import { useMe } from "../shell/me";
import { mayRespond, seesRuns } from "../shell/rights";
import { visible } from "../shell/visible";
import { Deadline, Since } from "../time/Times";
import { Asked } from "./Asked";
import { AnswerForm, type AnswerProps } from "./AnswerForm";
import { Assignment } from "./Assignment";
import { Conversation, conversationOf, withoutConversation } from "./Conversation";
import { type Decision, decide, useDecisions } from "./decisions";
import { forgetAnswer, useDraft } from "./drafts";
import { History } from "./History";
import { Metadata } from "./Metadata";
import { askedAt, deadlineOf, hindrance, type Question, questionOf } from "./question";
import "./question.css";
import { RunStory } from "./RunStory";
import { Snooze } from "./Snooze";
import { Unreadable } from "./Unreadable";
import { useViewed } from "./useViewed";
import { Votes } from "./Votes";

interface DetailProps {
  id: string;
  onDecided: () => void;
}

export function QuestionDetail({ id, onDecided }: DetailProps) {
  const client = useQueryClient();
  const me = useMe();
  const decision = useDecisions().find((each) => each.question.id === id);
  const asked = useQuery({
    queryKey: ["question", id],
    queryFn: async () =>
      questionOf(
        await given(
          api.GET("/v1/questions/{question_id}", {
            params: { path: { question_id: id } },
            parseAs: "text",
          }),
        ),
      ),
    retry: (count, error) => count < 3 && (error as Refused).problem === undefined,
  });
  const question = asked.data;
  const isThere = question !== undefined;
  useEffect(() => {
    if (isThere) document.querySelector<HTMLElement>("#question-text")?.focus({ preventScroll: true });
  }, [isThere]);
  const isOpen = question?.state === "pending";
  const hindered = mayRespond(me)
    ? question && hindrance(question, me.user_id, me.names)
    : "You may view questions, but not answer them.";
  useViewed(id, me.user_id, me.groups, isOpen && hindered === undefined);
  if (asked.isError) return <p className="trouble">{asked.error.message}</p>;
  if (question === undefined) return null;
  if (question.unreadable !== undefined) return <Unreadable question={question} />;

  const { data } = question;
  const talk = conversationOf(data.metadata);
  const deadline = deadlineOf(question);
  const send: AnswerProps["onAnswer"] = (value, note, said, alike) => {
    decide(client, { question, value, note, alike, user_id: me.user_id, groups: me.groups, said });
    onDecided();
  };
  return (
    <article className="question" aria-labelledby="question-text">
      <h2 id="question-text" tabIndex={-1}>
        {visible(data.text)}
      </h2>
      <p className="facts">
        <Asked run={question.run_id} at={askedAt(question)} />
        {isOpen && deadline !== undefined && <Deadline at={deadline} />}
        {isOpen && data.policy?.timeout_answer !== undefined && <span>which then counts as answered</span>}
        <span>{whoAnswers(question)}</span>
        {question.progress?.claimed_by !== undefined && isOpen && (
          <span>claimed by {question.progress.claimed_by}</span>
        )}
      </p>
      {data.help !== undefined && <p className="help">{visible(data.help)}</p>}
      {data.action !== undefined && (
        <section>
          <h3>
            If you approve: <code>{data.action.tool}</code>
          </h3>
          <Json value={data.action.arguments} />
        </section>
      )}
      {talk !== undefined && <Conversation said={talk} />}
      <Metadata metadata={talk === undefined ? data.metadata : withoutConversation(data.metadata)} />
      {data.attachments !== undefined && (
        <ul className="attachments">
          {data.attachments.map((each) => (
            <li key={each.url}>
              {webHost(each.url) === undefined ? (
                each.name
              ) : (
                <a href={each.url} target="_blank" rel="noopener noreferrer">
                  {each.name}
                </a>
              )}{" "}
              <small>
                {webHost(each.url) ?? "not a web address"}
                {each.media_type !== undefined && `, ${each.media_type}`}
              </small>
            </li>
          ))}
        </ul>
      )}
      {question.run_id !== undefined && seesRuns(me) && <RunStory runId={question.run_id} />}
      <Votes question={question} />
      {isOpen ? (
        <>
          <Refusal decision={decision} />
          {hindered === undefined ? (
            <AnswerForm question={question} onAnswer={send} refusal={decision?.refusal} />
          ) : (
            <p className="hint">{hindered}</p>
          )}
          <div className="hands">
            <Assignment question={question} />
            <Snooze question={question} onSnoozed={onDecided} />
          </div>
        </>
      ) : (
        <>
          <Settled question={question} />
          {decision?.state !== "waiting" && <Typed id={id} />}
        </>
      )}
      <History id={id} />
      <p className="back">
        <Link to="/inbox" search={(kept) => kept}>
          Back to the inbox
        </Link>
      </p>
    </article>
  );
}

function Refusal({ decision }: { decision: Decision | undefined }) {
  if (decision?.state !== "refused") return null;
  return (
    <p className="trouble" role="alert">
      Refused: {decision.refusal?.message}
    </p>
  );
}

/** Input that came too late. */
function Typed({ id }: { id: string }) {
  const { value, note } = useDraft(id);
  if (value === undefined && !note) return null;
  return (
    <section className="typed" aria-label="Your input">
      <h3>Your input</h3>
      {note && <p className="help">{note}</p>}
      {typeof value === "string" ? (
        <p className="help">{value}</p>
      ) : (
        value !== undefined && <Json value={value} />
      )}
      <button type="button" onClick={() => forgetAnswer(id)}>
        Discard it
      </button>
    </section>
  );
}

function whoAnswers({ assignees }: Question): string {
  return assignees.length === 0 ? "any user may answer" : `assigned to ${assignees.join(", ")}`;
}

/** The answer, its author and its time. */
function Settled({ question }: { question: Question }) {
  return (
    <section className="settled" role="status">
      <h3>
        {settledAs(question)}
        {question.settled_by !== undefined && ` by ${question.settled_by}`}
        {question.origin !== undefined && question.origin.way !== "timer" && (
          <span className="whence">, {whence(question.origin)}</span>
        )}
        {question.settled_at !== undefined && (
          <>
            {" "}
            <Since at={question.settled_at} />
          </>
        )}
      </h3>
      {question.note !== undefined && <p className="help">{question.note}</p>}
      {question.value !== undefined && <Json value={question.value} />}
    </section>
  );
}

function settledAs({ state, data, value }: Question): string {
  if (state === "timed_out") return "The deadline passed";
  if (state === "cancelled") return "Withdrawn";
  if (state === "rejected") return "Rejected";
  if (data.input_type !== "approval") return "Answered";
  return (value as { approved?: boolean } | null)?.approved === true ? "Approved" : "Rejected";
}

/** The host of an address that a page may link to; undefined for `javascript:`, `data:` and invalid addresses. */
function webHost(address: string): string | undefined {
  if (!URL.canParse(address)) return undefined;
  const { protocol, hostname } = new URL(address);
  return protocol === "https:" || protocol === "http:" ? hostname : undefined;
}
