/** The list of open questions. Only the visible rows are in the page, however long it is. */

import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type MouseEvent, useEffect, useLayoutEffect, useRef } from "react";
import { Guarded } from "../shell/Guarded";
import { visible } from "../shell/visible";
import { Deadline, Since } from "../time/Times";
import { askedAt, type Question } from "./question";

const ROW_PIXELS = 72;

interface Picks {
  picked: ReadonlySet<string>;
  /** Select or unselect one, or all from the last one to this one. */
  onPick: (id: string, isRange: boolean) => void;
}

interface ListProps extends Picks {
  questions: readonly Question[];
  /** Whether these are the last of the list. */
  isWhole: boolean;
  selected: string | undefined;
  onEnd: () => void;
}

export function QuestionList({ questions, isWhole, selected, onEnd, ...picks }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: questions.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PIXELS,
    overscan: 8,
    getItemKey: (index) => questions[index]?.id ?? index,
  });
  useSteadyPlace(scroller, questions);
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (questions.length > 0 && last >= questions.length - 100) onEnd();
  }, [last, questions.length, onEnd]);
  const at = questions.findIndex((each) => each.id === selected);
  const brought = useRef<string>(undefined);
  useEffect(() => {
    if (at < 0 || brought.current === selected) return;
    brought.current = selected;
    rows.scrollToIndex(at, { align: "auto" });
  }, [at, selected, rows]);
  return (
    <div className="list" ref={scroller}>
      <ul aria-label="Open questions" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, start, key }) => {
          const question = questions[index] as Question;
          return (
            <li
              key={key}
              style={{ transform: `translateY(${start}px)`, height: ROW_PIXELS }}
              aria-posinset={index + 1}
              aria-setsize={isWhole ? questions.length : -1}
            >
              <Guarded name={`Question ${question.id}`}>
                <Row question={question} isSelected={question.id === selected} {...picks} />
              </Guarded>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** Keep the visible rows in place when rows above them appear or disappear. */
function useSteadyPlace(scroller: React.RefObject<HTMLDivElement | null>, questions: readonly Question[]) {
  const before = useRef<readonly Question[]>([]);
  useLayoutEffect(() => {
    const was = before.current;
    before.current = questions;
    const box = scroller.current;
    if (box === null || was === questions || box.scrollTop === 0) return;
    const places = new Map(questions.map((each, index) => [each.id, index]));
    for (let index = Math.floor(box.scrollTop / ROW_PIXELS); index < was.length; index++) {
      const place = places.get((was[index] as Question).id);
      if (place === undefined) continue;
      if (place !== index) box.scrollBy({ top: (place - index) * ROW_PIXELS, behavior: "instant" });
      return;
    }
  }, [scroller, questions]);
}

interface RowProps extends Picks {
  question: Question;
  isSelected: boolean;
}

function Row({ question, isSelected, picked, onPick }: RowProps) {
  const isPicked = picked.has(question.id);
  const pickRange = (event: MouseEvent) => {
    if (!event.shiftKey) return;
    event.preventDefault();
    onPick(question.id, true);
  };
  return (
    <div className={isPicked ? "pickable picked" : "pickable"} data-question={question.id}>
      <label className="pick">
        <input
          type="checkbox"
          checked={isPicked}
          onChange={(event) => onPick(question.id, (event.nativeEvent as PointerEvent).shiftKey)}
        />
        <span className="unseen">Select: {question.data.text}</span>
      </label>
      <Link
        to="/inbox/$id"
        params={{ id: question.id }}
        search={(kept) => kept}
        className="row"
        aria-current={isSelected ? "true" : undefined}
        preload={false}
        onClickCapture={pickRange}
      >
        <span className="row-text">{visible(question.data.text)}</span>
        <span className="row-facts">
          <span className="row-run">{question.run_id ?? question.id}</span>
          {question.due_at === undefined ? (
            <Since at={askedAt(question)} />
          ) : (
            <Deadline at={question.due_at} />
          )}
        </span>
      </Link>
    </div>
  );
}
