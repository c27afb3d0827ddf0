/** Browser notifications of new questions: one per question, however many tabs are open. */

import { useNavigate } from "@tanstack/react-router";
import { useCallback, useSyncExternalStore } from "react";
import { keep, subscribe } from "../shell/kept";
import { useMe } from "../shell/me";
import { hindrance, type Question } from "./question";

const WANTED = "signoff.notify";
const ANNOUNCED = "signoff.notified";
const KEPT = 500;

export type Notices = "on" | "off" | "denied" | "impossible";

function state(): Notices {
  // browsers support them on https and on this machine only
  if (!("Notification" in window) || !window.isSecureContext) return "impossible";
  if (Notification.permission === "denied") return "denied";
  return localStorage.getItem(WANTED) === "on" && Notification.permission === "granted" ? "on" : "off";
}

/** Switch them on or off. The browser asks for permission the first time. */
export async function want(isWanted: boolean): Promise<void> {
  if (isWanted && Notification.permission === "default") await Notification.requestPermission();
  keep(WANTED, isWanted ? "on" : "off");
}

export function useNoticesState(): Notices {
  return useSyncExternalStore(subscribe, state);
}

/** Return a notification of a question that the user may now answer, unless a tab has already shown one. */
export function useNotices(): (question: Question, before?: Question) => void {
  const me = useMe();
  const navigate = useNavigate();
  return useCallback(
    (question: Question, before?: Question) => {
      const mayAnswer = (each: Question) => hindrance(each, me.user_id, me.names) === undefined;
      if (state() !== "on" || !mayAnswer(question)) return;
      if (before !== undefined && mayAnswer(before)) return;
      void navigator.locks.request(ANNOUNCED, () => {
        if (isTold(question.id)) return;
        const notice = new Notification(question.data.text, {
          body: question.run_id ?? question.id,
          tag: question.id,
        });
        notice.onclick = () => {
          notice.close();
          window.focus();
          void navigate({ to: "/inbox/$id", params: { id: question.id } });
        };
      });
    },
    [me, navigate],
  );
}

/** Whether a tab of this browser has announced it. Marks it as announced. */
function isTold(id: string): boolean {
  const announced = JSON.parse(localStorage.getItem(ANNOUNCED) ?? "[]") as string[];
  if (announced.includes(id)) return true;
  localStorage.setItem(ANNOUNCED, JSON.stringify([...announced, id].slice(-KEPT)));
  return false;
}
