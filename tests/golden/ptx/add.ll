; out[i] = a[i] + b[i] * c for i < count, for the PTX machine: the text that LLVM's NVPTX back end writes.
; PTX: llc-19 -march=nvptx64 -mcpu=sm_80 add.ll -o add.ptx
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare float @llvm.fma.f32(float, float, float)

define void @add(ptr %a, ptr %b, ptr %out, float %c, i32 %count) #0 {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %threads = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %block, %threads
  %i = add i32 %first, %thread
  %inside = icmp slt i32 %i, %count
  br i1 %inside, label %work, label %done
work:
  %wide = sext i32 %i to i64
  %pa = getelementptr float, ptr %a, i64 %wide
  %pb = getelementptr float, ptr %b, i64 %wide
  %po = getelementptr float, ptr %out, i64 %wide
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %sum = call float @llvm.fma.f32(float %vb, float %c, float %va)
  %bits = bitcast float %sum to i32
  %half = lshr i32 %bits, 16
  %narrow = trunc i32 %half to i16
  %positive = fcmp ogt float %sum, 0.0
  %chosen = select i1 %positive, float %sum, float 0.0
  store float %chosen, ptr %po
  br label %done
done:
  ret void
}

attributes #0 = { "denormal-fp-math-f32"="preserve-sign" }
!nvvm.annotations = !{!0}
!0 = !{ptr @add, !"kernel", i32 1}
