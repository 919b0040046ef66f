! SPDX-License-Identifier: Apache-2.0
! Two ranks call MPI from Fortran, by mpif.h or (F08) by mpi_f08, and look whether each call was counted once.
#ifdef F08
#define COMM_HANDLE type(MPI_Comm)
#define REQUEST_HANDLE type(MPI_Request)
#define FILE_HANDLE type(MPI_File)
#else
#define COMM_HANDLE integer
#define REQUEST_HANDLE integer
#define FILE_HANDLE integer
#endif
#define BEGIN before = test_calls()
#define ONCE(name) call test_counted(name//c_null_char, before, 1_c_long)
program fortran
#ifdef F08
  use mpi_f08
#endif
  use, intrinsic :: iso_c_binding
  implicit none
#ifndef F08
  include 'mpif.h'
#endif
  interface
    function test_calls() bind(C)
      import :: c_long
      integer(c_long) :: test_calls
    end function
    function test_failed() bind(C)
      import :: c_int
      integer(c_int) :: test_failed
    end function
    subroutine test_counted(name, before, times) bind(C)
      import :: c_char, c_long
      character(kind=c_char), intent(in) :: name(*)
      integer(c_long), value :: before, times
    end subroutine
  end interface
  integer(c_long) :: before
  integer :: me, other, e, index, out(8), in(8), counts(2), starts(2)
  logical :: flag
  COMM_HANDLE :: comm
  REQUEST_HANDLE :: request, requests(2)
  FILE_HANDLE :: file
  integer(kind=MPI_OFFSET_KIND) :: at
#ifdef F08
  type(MPI_Status) :: status, statuses(2)
#else
  integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
#endif

  BEGIN; call MPI_Init(e); ONCE("Init")
  call MPI_Comm_rank(MPI_COMM_WORLD, me, e)
  other = 1 - me; out = me; counts = 2; starts = (/0, 2/); at = 0
  BEGIN; call MPI_Send(out, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, e); ONCE("Send")
  BEGIN; call MPI_Recv(in, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, status, e); ONCE("Recv")
  BEGIN; call MPI_Irecv(in, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(1), e); ONCE("Irecv")
  BEGIN; call MPI_Isend(out, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(2), e); ONCE("Isend")
  BEGIN; call MPI_Waitall(2, requests, statuses, e); ONCE("Waitall")
  call MPI_Irecv(in, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, requests(1), e)
  BEGIN; call MPI_Ssend(out, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, e); ONCE("Ssend")
  BEGIN; call MPI_Waitany(1, requests, index, status, e); ONCE("Waitany")
  call MPI_Irecv(in, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, request, e)
  call MPI_Send(out, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, e)
  BEGIN
  flag = .false.
  do while (.not. flag)
    call MPI_Test(request, flag, status, e)
  end do
  ONCE("Test")
  BEGIN
  call MPI_Sendrecv(out, 4, MPI_INTEGER, other, 1, in, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, status, e)
  ONCE("Sendrecv")
  call MPI_Send(out, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, e)
  BEGIN; call MPI_Probe(other, 1, MPI_COMM_WORLD, status, e); ONCE("Probe")
  BEGIN; call MPI_Iprobe(other, 1, MPI_COMM_WORLD, flag, status, e); ONCE("Iprobe")
  call MPI_Recv(in, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, status, e)
  BEGIN; call MPI_Recv_init(in, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, request, e); ONCE("Recv_init")
  BEGIN; call MPI_Start(request, e); ONCE("Start")
  call MPI_Send(out, 4, MPI_INTEGER, other, 1, MPI_COMM_WORLD, e)
  BEGIN; call MPI_Wait(request, status, e); ONCE("Wait")
  BEGIN; call MPI_Request_free(request, e); ONCE("Request_free")
  BEGIN; call MPI_Barrier(MPI_COMM_WORLD, e); ONCE("Barrier")
  BEGIN; call MPI_Bcast(out, 4, MPI_INTEGER, 0, MPI_COMM_WORLD, e); ONCE("Bcast")
  BEGIN; call MPI_Gather(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, 0, MPI_COMM_WORLD, e); ONCE("Gather")
  BEGIN
  call MPI_Gatherv(out, 2, MPI_INTEGER, in, counts, starts, MPI_INTEGER, 0, MPI_COMM_WORLD, e)
  ONCE("Gatherv")
  BEGIN; call MPI_Scatter(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, 0, MPI_COMM_WORLD, e); ONCE("Scatter")
  BEGIN; call MPI_Allgather(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, MPI_COMM_WORLD, e); ONCE("Allgather")
  BEGIN; call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, in, 2, MPI_INTEGER, MPI_COMM_WORLD, e); ONCE("Allgather")
  BEGIN; call MPI_Alltoall(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, MPI_COMM_WORLD, e); ONCE("Alltoall")
  BEGIN
  call MPI_Alltoallv(out, counts, starts, MPI_INTEGER, in, counts, starts, MPI_INTEGER, MPI_COMM_WORLD, e)
  ONCE("Alltoallv")
  BEGIN; call MPI_Reduce(out, in, 4, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, e); ONCE("Reduce")
  BEGIN; call MPI_Allreduce(out, in, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e); ONCE("Allreduce")
  BEGIN; call MPI_Reduce_scatter(out, in, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e); ONCE("Reduce_scatter")
  BEGIN; call MPI_Scan(out, in, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e); ONCE("Scan")
  BEGIN; call MPI_Exscan(out, in, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e); ONCE("Exscan")
  BEGIN; call MPI_Ibarrier(MPI_COMM_WORLD, request, e); ONCE("Ibarrier")
  call MPI_Wait(request, status, e)
  BEGIN; call MPI_Iallreduce(out, in, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, e); ONCE("Iallreduce")
  call MPI_Wait(request, status, e)
  BEGIN; call MPI_Comm_dup(MPI_COMM_WORLD, comm, e); ONCE("Comm_dup")
  BEGIN; call MPI_Comm_free(comm, e); ONCE("Comm_free")
  BEGIN; call MPI_Comm_split(MPI_COMM_WORLD, me, 0, comm, e); ONCE("Comm_split")
  call MPI_Comm_free(comm, e)
  BEGIN
  call MPI_File_open(MPI_COMM_WORLD, 'of_fortran', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, e)
  ONCE("File_open")
  BEGIN; call MPI_File_write_at_all(file, at, out, 4, MPI_INTEGER, status, e); ONCE("File_write_at_all")
  BEGIN; call MPI_File_close(file, e); ONCE("File_close")
  BEGIN; call MPI_Finalize(e); ONCE("Finalize")
  if (test_failed() /= 0) stop 1
end program
