/** The list of open questions: as many rows in the page as can be seen, however long it is. */

import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { Deadline, Since } from "../time/Times";
import { askedAt, type Question } from "./question";

const ROW_PIXELS = 72;

interface ListProps {
  questions: Question[];
  selected: string | undefined;
  onEnd: () => void;
}

export function QuestionList({ questions, selected, onEnd }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: questions.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PIXELS,
    overscan: 8,
    getItemKey: (index) => questions[index]?.id ?? index,
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (questions.length > 0 && last >= questions.length - 20) onEnd();
  }, [last, questions.length, onEnd]);
  const at = questions.findIndex((each) => each.id === selected);
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at, { align: "auto" });
  }, [at, rows]);
  return (
    <div className="list" ref={scroller}>
      <ul aria-label="Open questions" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, start, key }) => {
          const question = questions[index] as Question;
          return (
            <li key={key} style={{ transform: `translateY(${start}px)`, height: ROW_PIXELS }}>
              <Row question={question} isSelected={question.id === selected} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function Row({ question, isSelected }: { question: Question; isSelected: boolean }) {
  return (
    <Link
      to="/inbox/$id"
      params={{ id: question.id }}
      className="row"
      aria-current={isSelected ? "true" : undefined}
      preload={false}
    >
      <span className="row-text">{question.data.text}</span>
      <span className="row-facts">
        <span className="row-run">{question.run_id ?? question.id}</span>
        {question.due_at === undefined ? <Since at={askedAt(question)} /> : <Deadline at={question.due_at} />}
      </span>
    </Link>
  );
}
